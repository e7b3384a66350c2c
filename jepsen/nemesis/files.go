package nemesis

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// files lists the regular files of a data folder that are not empty, in a fixed order.
func files(dir string) (list []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err == nil && info.Size() > 0 {
			list = append(list, path)
		}
		return nil
	})
	slices.Sort(list)
	return list, err
}

// kinds groups files by their kind, so that each is as likely as another.
func kinds(dir string, list []string) map[string][]string {
	groups := map[string][]string{}
	for _, path := range list {
		kind := kindOf(dir, path)
		groups[kind] = append(groups[kind], path)
	}
	return groups
}

// kindOf is a file's folder and the letters of its name.
func kindOf(dir, path string) (kind string) {
	rel, _ := filepath.Rel(dir, path)
	if len(rel) > 60 { // named by a hash
		return filepath.Dir(rel) + filepath.Ext(rel)
	}
	for _, c := range rel {
		if c < '0' || c > '9' {
			kind += string(c)
		}
	}
	return kind
}

// meaningless tells whether nobody reads files of a kind: unfinished ones, and those that were set aside because they are damaged.
func meaningless(kind string) bool {
	return kind == "LOCK" || strings.HasSuffix(kind, ".tmp") || strings.Contains(kind, "quarantine/") || strings.HasPrefix(kind, "damaged-")
}

// victim chooses one of the files under dir, of a kind that was chosen as seldom as any; "": there is none.
func (a *attack) victim(dir string, list []string) string {
	groups := kinds(dir, list)
	maps.DeleteFunc(groups, func(kind string, _ []string) bool { return meaningless(kind) })
	if len(groups) == 0 {
		return ""
	}
	a.n.mu.Lock()
	defer a.n.mu.Unlock()
	names := slices.Sorted(maps.Keys(groups))
	least := a.n.kinds[slices.MinFunc(names, func(x, y string) int { return cmp.Compare(a.n.kinds[x], a.n.kinds[y]) })]
	names = slices.DeleteFunc(names, func(kind string) bool { return a.n.kinds[kind] > least })
	kind := names[a.r.IntN(len(names))]
	a.n.kinds[kind]++
	return groups[kind][a.r.IntN(len(groups[kind]))]
}

// flip flips one bit.
func flip(r *rand.Rand, dir, path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	at, err := spot(r, f, info.Size())
	if err != nil {
		return "", err
	}
	bit, b := r.IntN(8), make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		return "", err
	}
	b[0] ^= 1 << bit
	_, err = f.WriteAt(b, at)
	rel, _ := filepath.Rel(dir, path)
	return fmt.Sprintf("bit %d of byte %d of %s (%d bytes)", bit, at, rel, info.Size()), err
}

const (
	spotPage  = 4 << 10
	spotHead  = 2 * spotPage // where many files say what the rest of them is
	spotTries = 200
)

// spot chooses a byte of a file. A third are near its beginning; the others are not among nothing but zeros if there is anything else: some
// files are larger than what they hold.
func spot(r *rand.Rand, f io.ReaderAt, size int64) (at int64, err error) {
	if r.IntN(3) == 0 {
		return r.Int64N(min(size, spotHead)), nil
	}
	page := make([]byte, spotPage)
	for range spotTries {
		at = r.Int64N(size)
		n, err := f.ReadAt(page, at-at%spotPage)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if slices.ContainsFunc(page[:n], func(b byte) bool { return b != 0 }) {
			break
		}
	}
	return at, nil
}

// tear damages the end of a file.
func tear(r *rand.Rand, dir, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	rel, _ := filepath.Rel(dir, path)
	from := max(0, info.Size()-1-r.Int64N(min(info.Size(), 64<<10)))
	switch r.IntN(3) {
	case 0:
		return fmt.Sprintf("%s cut to %d of %d bytes", rel, from, info.Size()), os.Truncate(path, from)
	case 1:
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return "", err
		}
		_, err = f.WriteAt(make([]byte, info.Size()-from), from)
		return fmt.Sprintf("%s zeroed from %d of %d bytes", rel, from, info.Size()), errors.Join(err, f.Close())
	default:
		return rel + " removed", os.Remove(path)
	}
}
