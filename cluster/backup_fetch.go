package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/cantus-bus/cantus/internal/vfs"
)

func (b *backup) path(f BackupFile) string { return filepath.Join(b.files, f.SHA256) }

// advance tells of bytes that are here.
func (b *backup) advance(n int64) {
	b.done += n
	if b.o.Progress != nil {
		b.o.Progress(b.done, b.total)
	}
}

// keep stores a small file.
func (b *backup) keep(f BackupFile, bytes []byte) error {
	b.advance(f.Size)
	b.result.FetchedBytes += f.Size
	return vfs.Replace(b.fs, b.path(f), bytes)
}

// fetch brings a file here, from where an earlier attempt stopped. One that is here is read, once a call: its disk may have damaged it
// since it got its name. Then it stays until the right bytes have come and take its place.
func (b *backup) fetch(ctx context.Context, f BackupFile) error {
	here, err := b.holds(ctx, f)
	if here || err != nil {
		return err
	}
	before := b.done
	resumed, err := b.fetchPart(ctx, f)
	if errors.Is(err, errWrongSum) && resumed {
		// What the earlier attempt left may be what is wrong.
		b.done = before
		_, err = b.fetchPart(ctx, f)
	}
	return err
}

// holds says whether the file is here and whole.
func (b *backup) holds(ctx context.Context, f BackupFile) (bool, error) {
	if !b.checked[f.SHA256] {
		sum, err := sumOf(ctx, b.fs, b.path(f))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return false, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err != nil || sum != f.SHA256: // one that cannot be read is damaged too
			b.result.ReplacedFiles++
			return false, nil
		}
		b.checked[f.SHA256] = true
	}
	b.advance(f.Size)
	return true, nil
}

// errWrongSum: all bytes came, and they are not the ones that were asked for.
var errWrongSum = errors.New("its bytes do not have the hash that the node told")

// fetchPart fetches what a part file lacks, checks all of it and gives it its name. A part that fails the check is removed.
func (b *backup) fetchPart(ctx context.Context, f BackupFile) (resumed bool, err error) {
	part := b.path(f) + partSuffix
	file, err := b.fs.OpenAppend(part)
	if err != nil {
		return false, err
	}
	h := sha256.New()
	have, err := b.takeOver(file, h, f.Size)
	if err == nil {
		err = b.download(ctx, f, file, h, have)
	}
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil && hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		err = errors.Join(fmt.Errorf("file %s: %w", f.SHA256, errWrongSum), b.fs.Remove(part))
	}
	if err != nil {
		return have > 0, err
	}
	if err := b.fs.Rename(part, b.path(f)); err != nil {
		return have > 0, err
	}
	b.checked[f.SHA256] = true
	return have > 0, b.fs.SyncDir(b.files)
}

// takeOver hashes what is there. More than the file has is not of it, which the hash will tell.
func (b *backup) takeOver(file vfs.File, h hash.Hash, size int64) (have int64, err error) {
	if have, err = file.Size(); err != nil {
		return 0, err
	}
	_, err = io.Copy(h, io.NewSectionReader(file, 0, have))
	b.advance(min(have, size))
	return have, err
}

// download appends the bytes from have on.
func (b *backup) download(ctx context.Context, f BackupFile, file vfs.File, h hash.Hash, have int64) error {
	if have >= f.Size {
		return nil
	}
	var sum [sha256.Size]byte
	if _, err := hex.Decode(sum[:], []byte(f.SHA256)); err != nil {
		return err
	}
	r, err := b.o.Source.Open(ctx, sum, have)
	if err != nil {
		return moved(err)
	}
	defer r.Close()
	n, err := io.Copy(io.MultiWriter(file, h, counter(func(n int64) {
		b.result.FetchedBytes += n
		b.advance(n)
	})), io.LimitReader(r, f.Size-have))
	if err == nil && n < f.Size-have {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("fetch file %s: after %d of %d bytes: %w", f.SHA256, have+n, f.Size, err)
	}
	return nil
}

// counter is told how many bytes pass.
type counter func(n int64)

func (c counter) Write(b []byte) (int, error) {
	c(int64(len(b)))
	return len(b), nil
}

// sumOf reads a file. ctx ends it between two pieces.
func sumOf(ctx context.Context, fsys vfs.FS, path string) (string, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	size, err := f.Size()
	if err == nil {
		_, err = io.Copy(h, &stoppable{ctx, io.NewSectionReader(f, 0, size)})
	}
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}
