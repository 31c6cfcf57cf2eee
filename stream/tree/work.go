package tree

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/quivernet/quiver/internal/files"
	"github.com/quivernet/quiver/stream/cdc"
)

// workPrefix is the prefix of a work folder's name.
const workPrefix = ".quiver-"

// workName matches the name of a work folder and, almost certainly, no other name.
var workName = regexp.MustCompile(`^\.quiver-[0-9a-f]{16}$`)

// Names in a work folder.
const (
	workLock  = "lock"
	workNew   = "new"   // staged content
	workReady = "ready" // staged content about to be put in place; after an exchange, the content it replaced
	workOld   = "old"   // content moved aside from the target
	workGone  = "gone"  // content being removed
)

// A workFolder is the folder in which files are staged. It is beside their target and so on
// the same file system.
type workFolder struct {
	path string
	root *os.Root
	lock *os.File // keeps other restores out until it is closed
}

// Tests replace these by a file system without locks and by one that cannot exchange names.
var (
	tryLock  = files.TryLock
	exchange = files.Exchange
)

// errForeign means that somebody else created the file or folder that has a work folder's name.
var errForeign = errors.New("somebody else's, and a restore needs the name")

// workPath returns the path of the work folder for a target.
func workPath(target string) string {
	name := cdc.Sum([]byte(filepath.Base(target)))
	return filepath.Join(filepath.Dir(target), workPrefix+hex.EncodeToString(name[:8]))
}

// openWork creates the work folder for a target, or opens the one that an earlier restore left.
func openWork(target string) (*workFolder, error) {
	p := workPath(target)
	mkdirErr := os.Mkdir(p, 0o700)
	if mkdirErr != nil && !errors.Is(mkdirErr, fs.ErrExist) {
		return nil, mkdirErr
	}
	// An existing folder may belong to somebody else, in /tmp for example.
	info, err := os.Lstat(p)
	if err != nil || !info.IsDir() || mkdirErr != nil && !files.IsMine(p, info) {
		return nil, errors.Join(fmt.Errorf("%s is %w", p, errForeign), err)
	}
	root, err := os.OpenRoot(p)
	if err != nil {
		return nil, err
	}
	lock, err := root.OpenFile(workLock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("work folder %s: %w", p, err), root.Close())
	}
	if err := lockWork(lock, p); err != nil {
		return nil, errors.Join(err, lock.Close(), root.Close())
	}
	return &workFolder{p, root, lock}, nil
}

// lockWork locks the lock file in the work folder at p. It returns ErrBusy if another
// restore holds the lock, or held it and removed the file before it was locked here.
func lockWork(lock *os.File, p string) error {
	err := tryLock(lock)
	if errors.Is(err, files.ErrLocked) || !files.Stands(lock) {
		return ErrBusy
	}
	if err != nil {
		return fmt.Errorf("lock in %s: %w", p, err)
	}
	return nil
}

// chmod is replaced by tests, by a file system without modes.
var chmod = (*os.Root).Chmod

// chmod sets the mode of a name, if the file system has modes.
func (w *workFolder) chmod(name string, mode fs.FileMode) error {
	return tolerate(chmod(w.root, name, mode))
}

// cleanUp finishes what a crash in or after publish left undone. It puts content that was
// moved aside back if nothing is at the target. Otherwise rescue decides about that content.
func (w *workFolder) cleanUp(
	ctx context.Context,
	target string,
	mayReplace func(context.Context, string) error,
) (kept, err error) {
	if _, err := os.Lstat(target); errors.Is(err, fs.ErrNotExist) {
		err := os.Rename(filepath.Join(w.path, workOld), target)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	kept, err = w.rescue(ctx, target, mayReplace)
	if err != nil {
		return nil, errors.Join(err, kept)
	}
	return kept, errors.Join(w.removeReplaced(workOld), w.removeReplaced(workReady))
}

// publish puts the staged content in place, and moves the content that was there into the
// work folder. It does so in one step if the system can.
func (w *workFolder) publish(target string) error {
	// Under this name, the content is not taken for staged content after a crash.
	if err := w.root.Rename(workNew, workReady); err != nil {
		return err
	}
	if err := w.swap(filepath.Join(w.path, workReady), target); err != nil {
		return errors.Join(err, w.root.Rename(workReady, workNew))
	}
	return errors.Join(flushFolder(w.path), flushFolder(filepath.Dir(target)))
}

// swap moves ready to target, and moves the content that was there into the work folder. That
// content is then at workReady if the system can exchange names, and otherwise at workOld.
func (w *workFolder) swap(ready, target string) error {
	old, err := os.Lstat(target)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err == nil && old.IsDir() && old.Mode()&0o200 == 0 {
		// A folder without write permission cannot be moved.
		_ = os.Chmod(target, old.Mode()|0o200)
	}
	if exchange(ready, target) == nil {
		return nil
	}

	// A rename can replace a file by a file. The link keeps the old file.
	aside := filepath.Join(w.path, workOld)
	_ = os.Link(target, aside) // fails for a folder
	if err := os.Rename(ready, target); err == nil || isNew {
		return err
	}
	_ = os.Remove(aside)

	// A rename cannot replace a folder, so move the old content aside first.
	if err := os.Rename(target, aside); err != nil {
		return err
	}
	if err := os.Rename(ready, target); err != nil {
		return errors.Join(err, os.Rename(aside, target))
	}
	return nil
}

// A KeptError means that the restore is done, but that the content it replaced was written
// to at the last moment. That content was kept beside the target.
type KeptError struct {
	Path string // path of the kept content
}

func (e *KeptError) Error() string {
	return "what was there was written to at the last moment, and is kept as " + e.Path
}

// rescue asks mayReplace about the replaced content. If the content may not be removed,
// rescue moves it to a name of its own, and kept is a [*KeptError]. Content that cannot be
// moved stays where it is. If ctx ends first, all of it stays.
func (w *workFolder) rescue(
	ctx context.Context,
	target string,
	mayReplace func(context.Context, string) error,
) (kept, err error) {
	for _, name := range []string{workReady, workOld} {
		replaced := filepath.Join(w.path, name)
		if _, err := os.Lstat(replaced); err != nil || mayReplace(ctx, replaced) == nil {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		aside := conflictPath(target)
		if failed := os.Rename(replaced, aside); failed != nil {
			err = errors.Join(err, failed)
		} else {
			kept = errors.Join(kept, &KeptError{aside})
		}
	}
	return kept, err
}

// conflictPath returns an unused path beside the target. Its name is the target's,
// shortened to what file systems allow (255 bytes), and the time.
func conflictPath(target string) string {
	dir, name := filepath.Split(target)
	for now := time.Now(); ; now = now.Add(time.Millisecond) {
		suffix := now.Format(" (conflict 2006-01-02 15.04.05.000)")
		aside := dir + strings.ToValidUTF8(name[:min(len(name), 255-len(suffix))], "") + suffix
		// After an error other than fs.ErrNotExist the rename to the path fails as well.
		if _, err := os.Lstat(aside); err != nil {
			return aside
		}
	}
}

// removeReplaced removes replaced content. It renames the content first. To the next
// restore, content that a crash left half removed would look like a folder in which
// somebody has deleted files.
func (w *workFolder) removeReplaced(name string) error {
	if err := w.remove(workGone); err != nil {
		return err
	}
	err := w.root.Rename(name, workGone)
	switch {
	case err == nil:
		return w.remove(workGone)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return w.remove(name)
}

// removeAll is replaced by tests, by a process that is killed.
var removeAll = (*os.Root).RemoveAll

// remove removes everything at name, even from folders without write permission.
func (w *workFolder) remove(name string) error {
	if err := removeAll(w.root, name); err == nil {
		return nil
	}
	walkErr := fs.WalkDir(w.root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = w.chmod(p, 0o700) // before the folder is read
		}
		return err
	})
	return errors.Join(walkErr, removeAll(w.root, name))
}

// close closes the folder. It also removes the folder, unless the folder holds staged
// content, or replaced content that rescue did not handle. If the folder is already closed,
// close does nothing.
func (w *workFolder) close() error {
	if w.root == nil {
		return nil
	}
	for _, name := range []string{workNew, workReady, workOld} {
		if _, err := w.root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return w.release()
		}
	}
	return w.discard()
}

// release closes the folder and unlocks it. Its content stays.
func (w *workFolder) release() error {
	err := errors.Join(w.lock.Close(), w.root.Close())
	w.root = nil
	return err
}

// discard removes the folder with its content and closes it.
func (w *workFolder) discard() error {
	err := errors.Join(
		w.remove(workNew),
		w.removeReplaced(workReady),
		w.removeReplaced(workOld),
		w.root.Remove(workLock),
		w.release(),
	)
	// fs.ErrExist means that another restore has begun in the folder.
	if removeErr := os.Remove(w.path); !errors.Is(removeErr, fs.ErrExist) {
		err = errors.Join(err, removeErr)
	}
	return err
}
