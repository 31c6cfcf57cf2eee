package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// Commit makes the save appear at its target, when no chunk is lacking: it gives files and folders their modes and times,
// has the system keep them, and puts all in place in one step. Until that step the target stays as it was, and ctx may
// end the commit, which may be tried again. A folder is replaced in one step on Linux; elsewhere what it replaces is moved
// aside first, and a crash at that moment leaves no folder, until the next NewRestore of the target puts it back.
//
// The restore is closed then, and its work folder removed; an error that wraps [ErrLeftover] says that only that failed.
func (r *Restore) Commit(ctx context.Context) error {
	if n := len(r.lacks); n > 0 {
		return fmt.Errorf("%s: %d chunks are lacking", r.target, n)
	}
	if err := r.work.unlock(workNew); err != nil { // an earlier commit may have ended half way
		return fmt.Errorf("work folder %s: %w", r.work.path, err)
	}
	if err := r.sealAll(ctx); err != nil {
		return err
	}
	if err := r.work.publish(r.target, r.replace); err != nil {
		return fmt.Errorf("%s: %w", r.target, reason(err))
	}
	root := &r.manifest.Entries[0]
	err := os.Chmod(r.target, root.Mode) // not before: a folder that may not be written to cannot be moved
	err = errors.Join(err, os.Chtimes(r.target, time.Time{}, time.Unix(0, root.Time)), flushPath(r.target))
	if err != nil {
		return fmt.Errorf("%s: it is restored, but not its mode and time: %w", r.target, err)
	}
	if err := r.work.discard(); err != nil {
		return fmt.Errorf("%s: %w: %w", r.target, ErrLeftover, err)
	}
	return nil
}

// flushers is how many files are flushed at once: the file system writes its journal once for all of them. On ext4
// on a virtual disk 1,000 small files were restored in 1.3 s, and in 2.3 s one after another.
const flushers = 16

// sealAll finishes the files, then links and folders, a folder after what is in it.
func (r *Restore) sealAll(ctx context.Context) error {
	var running sync.WaitGroup
	errs, next := make([]error, flushers), make(chan int)
	for n := range flushers {
		running.Go(func() {
			for i := range next {
				if errs[n] == nil {
					errs[n] = r.seal(ctx, i)
				}
			}
		})
	}
	for i := range r.manifest.Entries {
		if r.manifest.Entries[i].Kind == manifest.File {
			next <- i
		}
	}
	close(next)
	running.Wait()
	err := errors.Join(errs...)
	for i := len(r.manifest.Entries) - 1; i >= 0 && err == nil; i-- {
		if r.manifest.Entries[i].Kind != manifest.File {
			err = r.seal(ctx, i)
		}
	}
	return err
}

// seal finishes an entry: its mode and time, but for the root's, or the link, and has the system keep it.
func (r *Restore) seal(ctx context.Context, i int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := r.sealEntry(i); err != nil {
		return r.failed(i, err)
	}
	return nil
}

func (r *Restore) sealEntry(i int) error {
	e, name, root := &r.manifest.Entries[i], r.staged(i), r.work.root
	if e.Kind == manifest.Link {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return root.Symlink(filepath.FromSlash(e.Target), name)
	}
	flag := os.O_RDONLY
	if e.Kind == manifest.File {
		flag = os.O_RDWR // Windows flushes no file that is open for reading
		if err := root.Chmod(name, 0o600); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, flag, 0)
	if err != nil {
		return err
	}
	if e.Path != manifest.Root {
		err = errors.Join(root.Chtimes(name, time.Time{}, time.Unix(0, e.Time)), root.Chmod(name, e.Mode))
	}
	return errors.Join(err, flush(f), f.Close())
}

// flush has the system keep a file or the names in a folder. Windows has no way to ask for the latter, and file systems
// that cannot do it say so and are not blamed.
func flush(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.IsDir() && runtime.GOOS == "windows" {
		return err
	}
	err = f.Sync()
	if info.IsDir() && (errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)) {
		return nil
	}
	return err
}

func flushPath(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil // its owner may not read it; the mode will be kept some seconds later
	}
	if err != nil {
		return err
	}
	return errors.Join(flush(f), f.Close())
}
