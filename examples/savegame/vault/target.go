package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/disk"
)

// nearParts is where contents wait that are on their way into a folder.
const nearParts = ".savegame-parts"

// Target is where a save goes. A regular file appears, or replaces what is there, when the save is complete; where the
// path is a link, that is the file that it leads to. A pipe or a device is written to as the content comes.
type Target struct {
	Path string

	// Of a regular file.
	file  string // behind links
	mode  fs.FileMode
	store stream.Store // nil: it is no regular file

	open func(ctx context.Context) (io.WriteCloser, error)
}

// OpenTarget sees that the file can be made. A folder in place of a file means the file called name in it.
func OpenTarget(path, name string) (*Target, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		path = filepath.Join(path, name)
		info, err = os.Stat(path)
	}
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%s is a folder", path)
	case err == nil && !info.Mode().IsRegular():
		return openDirect(path, info.Mode()), nil
	}
	file, err := follow(path)
	if err != nil {
		return nil, fmt.Errorf("file %s can not be written: %w", path, Reason(err))
	}
	dir := filepath.Dir(file)
	mode, err := Writable(dir)
	if err != nil {
		return nil, err
	}
	if info != nil {
		mode = info.Mode().Perm()
	}
	parts := filepath.Join(dir, nearParts)
	if err := checkFolder(parts); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("folder %s: %w", parts, Reason(err))
	}
	store := disk.New(parts)
	store.MaxBytes, store.MaxIdentityBytes, store.MaxIdentityFiles = -1, -1, -1
	t := &Target{Path: path, file: file, mode: mode, store: Patient(&scoped{store, filepath.Base(file)})}
	t.open = func(context.Context) (io.WriteCloser, error) { return keepOpen{io.Discard}, nil } // the store writes
	return t, nil
}

// TargetOf is a target that w is, which is not closed.
func TargetOf(w io.Writer, path string) *Target {
	return &Target{Path: path, open: func(context.Context) (io.WriteCloser, error) { return keepOpen{w}, nil }}
}

type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// openDirect is a pipe or a device. A pipe is opened once somebody reads from it.
func openDirect(path string, mode fs.FileMode) *Target {
	t := &Target{Path: path}
	t.open = func(ctx context.Context) (io.WriteCloser, error) {
		if mode&fs.ModeNamedPipe == 0 {
			return os.OpenFile(path, os.O_WRONLY, 0)
		}
		for {
			f, err := os.OpenFile(path, os.O_WRONLY|nonBlock, 0)
			if !errors.Is(err, syscall.ENXIO) {
				return f, err
			}
			select {
			case <-soon():
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
	return t
}

// maxLinks is how many links lead to a file at most.
const maxLinks = 40

// follow returns the file that a link leads to, whether it is there or not, and path itself where it is no link.
func follow(path string) (string, error) {
	for range maxLinks {
		next, err := os.Readlink(path)
		if err != nil {
			return path, nil
		}
		if !filepath.IsAbs(next) {
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return "", err
			}
			next = dir + string(filepath.Separator) + next
		}
		dir, base := filepath.Split(next)
		if dir, err = filepath.EvalSymlinks(dir); err != nil { // before it is cleaned: .. behind a link is elsewhere
			return "", err
		}
		path = filepath.Join(dir, base)
	}
	return "", errors.New("too many links")
}

// IsFile reports whether the target is a regular file. What is none keeps nothing that a later get could go on with.
func (t *Target) IsFile() bool { return t.store != nil }

// Open returns where the content is to be written as it comes. It waits for the reader of a pipe.
func (t *Target) Open(ctx context.Context) (io.WriteCloser, error) {
	w, err := t.open(ctx)
	if err != nil {
		return nil, t.Explain("", "", err)
	}
	return w, nil
}

// Store is where the content goes on its way, nil for what is no regular file.
func (t *Target) Store() stream.Store { return t.store }

// Has reports whether the file has that content already. It fails only with the cause of ctx.
func (t *Target) Has(ctx context.Context, digest stream.Digest, size int64) (bool, error) {
	if !t.IsFile() {
		return false, nil
	}
	f, err := openRegular(t.file)
	if err != nil {
		return false, nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != size {
		return false, nil
	}
	got, err := Digest(ctx, f, size, digest.Algorithm())
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return err == nil && got == digest, nil
}

// Publish makes the file of the complete content in the store, unless another who fetched the same into it was faster.
func (t *Target) Publish(ctx context.Context, identity string, digest stream.Digest, size int64) error {
	if !t.IsFile() {
		return nil
	}
	key := digest.String()
	err := Publish(t.store, identity, key, t.file, t.mode)
	if errors.Is(err, fs.ErrNotExist) {
		if same, _ := t.Has(ctx, digest, size); same {
			err = nil
		}
	}
	if err != nil {
		return t.Explain(identity, key, err)
	}
	t.tidy()
	return nil
}

// Explain names the file in an error that came of writing its content.
func (t *Target) Explain(identity, key string, err error) error {
	if Reason(err) == err {
		return err
	}
	if t.IsFile() {
		DropIfFull(t.store, identity, key, err)
		t.tidy()
	}
	return fmt.Errorf("file %s can not be written: %w", t.Path, Reason(err))
}

// tidy removes the folder of the parts if nothing waits in it.
func (t *Target) tidy() {
	root := filepath.Join(filepath.Dir(t.file), nearParts)
	folders, _ := os.ReadDir(root)
	for _, f := range folders {
		_ = os.Remove(filepath.Join(root, f.Name()))
	}
	_ = os.Remove(root)
}
