package subtree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// Loosen takes apart a history whose manifest is damaged, so that Open makes an empty one of the folder: the manifest moves to the folder
// to, which is made, and each file is read and moves to incoming/ under its SHA-256, as if it had been received. An Install that wants a file with
// that hash finds it, reads it once more, and it need not be fetched; one that cannot be read moves to the folder to. n is how many moved. No
// Store may be open on the folder. After a crash at any step doing it again goes on.
func Loosen(fsys vfs.FS, dir, to string) (n int, err error) {
	err = moveManifest(fsys, dir, to)
	if err == nil {
		n, err = loosenFiles(fsys, dir, to)
	}
	if err != nil {
		return n, fmt.Errorf("subtree: take history in %s apart: %w", dir, err)
	}
	return n, nil
}

// moveManifest comes first: a manifest without its files would list them all as damaged.
func moveManifest(fsys vfs.FS, dir, to string) error {
	if err := fsys.MkdirAll(to); err != nil {
		return err
	}
	if err := fsys.SyncDir(filepath.Dir(to)); err != nil {
		return err
	}
	err := fsys.Rename(filepath.Join(dir, manifestName), filepath.Join(to, manifestName))
	if errors.Is(err, fs.ErrNotExist) { // it is missing, or was moved before a crash
		return nil
	}
	if err == nil {
		err = fsys.SyncDir(to)
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	return err
}

func loosenFiles(fsys vfs.FS, dir, to string) (n int, err error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	incoming := filepath.Join(dir, incomingDir)
	if err == nil {
		err = fsys.MkdirAll(incoming)
	}
	for _, name := range names {
		if err != nil || !isFileName(name) {
			continue
		}
		place := filepath.Join(to, name)
		if sum, unread := sumOf(fsys, filepath.Join(dir, name)); unread == nil {
			place = filepath.Join(incoming, hex.EncodeToString(sum[:])+fileSuffix)
			n++
		}
		err = fsys.Rename(filepath.Join(dir, name), place)
	}
	for _, d := range []string{to, incoming, dir} {
		if err == nil {
			err = fsys.SyncDir(d)
		}
	}
	return n, err
}

func sumOf(fsys vfs.FS, path string) (sum fileSum, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.CopyBuffer(h, struct{ io.Reader }{io.NewSectionReader(f, 0, 1<<62)}, make([]byte, 256<<10))
	h.Sum(sum[:0])
	return sum, err
}
