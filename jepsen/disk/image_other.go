//go:build !linux

package disk

// Image needs Linux.
type Image struct{ Folder }

// CanImage is false here.
func CanImage() bool { return false }

// NewImage is not supported.
func NewImage(string) (*Image, error) { return nil, ErrUnsupported }
