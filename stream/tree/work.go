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

// workPrefix begins the name of a work folder.
const workPrefix = ".quiver-"

// workName matches the name of a work folder and, almost certainly, no other name.
var workName = regexp.MustCompile(`^\.quiver-[0-9a-f]{16}$`)

// The names in a work folder.
const (
	workLock  = "lock"
	workNew   = "new"   // what is staged
	workReady = "ready" // what was staged and is about to be put in place; after an exchange, what it has replaced
	workOld   = "old"   // what was at the target and was moved aside
	workGone  = "gone"  // what is being removed
)

// A workFolder is where files are staged, beside their target and so on the same file system.
type workFolder struct {
	path string
	root *os.Root
	lock *os.File // keeps other restores out until it is closed
}

// Replaced by tests: by a file system without locks, and by one that cannot exchange names.
var (
	tryLock  = files.TryLock
	exchange = files.Exchange
)

// errForeign means that somebody else created what has a work folder's name.
var errForeign = errors.New("somebody else's, and a restore needs the name")

// workPath returns the path of the work folder for a target.
func workPath(target string) string {
	name := cdc.Sum([]byte(filepath.Base(target)))
	return filepath.Join(filepath.Dir(target), workPrefix+hex.EncodeToString(name[:8]))
}

// openWork creates the work folder for a target, or opens the one that an earlier restore has left.
func openWork(target string) (*workFolder, error) {
	p := workPath(target)
	made := os.Mkdir(p, 0o700)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return nil, made
	}
	info, err := os.Lstat(p)
	if err != nil || !info.IsDir() || made != nil && !files.IsMine(p, info) { // it belongs to somebody else, in /tmp for example
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
	if err = tryLock(lock); errors.Is(err, files.ErrLocked) || !files.Stands(lock) { // the last holder may have removed it before it was locked here
		err = ErrBusy
	} else if err != nil {
		err = fmt.Errorf("lock in %s: %w", p, err)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close(), root.Close())
	}
	return &workFolder{p, root, lock}, nil
}

// chmod is replaced by tests, by a file system without modes.
var chmod = (*os.Root).Chmod

// chmod sets the mode of a name, if the file system has modes.
func (w *workFolder) chmod(name string, mode fs.FileMode) error {
	return tolerate(chmod(w.root, name, mode))
}

// cleanUp finishes what a crash in or after publish has left undone. It puts back what
// was moved aside if nothing is at the target. Otherwise rescue decides about it.
func (w *workFolder) cleanUp(ctx context.Context, target string, mayReplace func(context.Context, string) error) (kept, err error) {
	if _, err := os.Lstat(target); errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(filepath.Join(w.path, workOld), target); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if kept, err = w.rescue(ctx, target, mayReplace); err != nil {
		return nil, errors.Join(err, kept)
	}
	return kept, errors.Join(w.drop(workOld), w.drop(workReady))
}

// publish puts what is staged in place, and moves what was there into the work
// folder: in one step if the system can.
func (w *workFolder) publish(target string) error {
	if err := w.root.Rename(workNew, workReady); err != nil { // so that after a crash it is not taken for staged content
		return err
	}
	if err := w.swap(filepath.Join(w.path, workReady), target); err != nil {
		return errors.Join(err, w.root.Rename(workReady, workNew))
	}
	return errors.Join(flushFolder(w.path), flushFolder(filepath.Dir(target)))
}

// swap moves ready to target, and what was there into the work folder: to
// workReady by an exchange, or else to workOld.
func (w *workFolder) swap(ready, target string) error {
	old, err := os.Lstat(target)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err == nil && old.IsDir() && old.Mode()&0o200 == 0 { // a folder without write permission cannot be moved
		_ = os.Chmod(target, old.Mode()|0o200)
	}
	if exchange(ready, target) == nil {
		return nil
	}
	aside := filepath.Join(w.path, workOld)
	_ = os.Link(target, aside)                                // fails for a folder
	if err := os.Rename(ready, target); err == nil || isNew { // a file can replace a file
		return err
	}
	_ = os.Remove(aside)
	if err := os.Rename(target, aside); err != nil {
		return err
	}
	if err := os.Rename(ready, target); err != nil {
		return errors.Join(err, os.Rename(aside, target))
	}
	return nil
}

// A KeptError means that the restore is done, but that what it replaced was
// written to at the last moment and was kept beside the target.
type KeptError struct {
	Path string // of what was kept
}

func (e *KeptError) Error() string {
	return "what was there was written to at the last moment, and is kept as " + e.Path
}

// rescue asks mayReplace about what was replaced. If it may not be removed,
// rescue moves it to a name of its own, and kept is a [*KeptError]. What cannot
// be moved stays where it is, as does everything if ctx ends first.
func (w *workFolder) rescue(ctx context.Context, target string, mayReplace func(context.Context, string) error) (kept, err error) {
	for _, name := range []string{workReady, workOld} {
		replaced := filepath.Join(w.path, name)
		if _, err := os.Lstat(replaced); err != nil || mayReplace(ctx, replaced) == nil {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		aside := beside(target)
		if failed := os.Rename(replaced, aside); failed != nil {
			err = errors.Join(err, failed)
		} else {
			kept = errors.Join(kept, &KeptError{aside})
		}
	}
	return kept, err
}

// beside returns an unused path beside the target. Its name is the target's,
// shortened to what file systems allow (255 bytes), and the time.
func beside(target string) string {
	dir, name := filepath.Split(target)
	for now := time.Now(); ; now = now.Add(time.Millisecond) {
		suffix := now.Format(" (conflict 2006-01-02 15.04.05.000)")
		aside := dir + strings.ToValidUTF8(name[:min(len(name), 255-len(suffix))], "") + suffix
		if _, err := os.Lstat(aside); err != nil { // after errors other than fs.ErrNotExist the rename fails, too
			return aside
		}
	}
}

// drop removes what was replaced. It renames it first: what a crash leaves of it
// would look to the next restore like a folder in which somebody has deleted files.
func (w *workFolder) drop(name string) error {
	if err := w.remove(workGone); err != nil {
		return err
	}
	switch err := w.root.Rename(name, workGone); {
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
	return errors.Join(fs.WalkDir(w.root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = w.chmod(p, 0o700) // before the folder is read
		}
		return err
	}), removeAll(w.root, name))
}

// close closes the folder. It also removes the folder, unless that holds staged
// content, or content about which rescue has not asked or which it could not
// move. If the folder is already closed, close does nothing.
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

// release closes the folder and unlocks it; its content stays.
func (w *workFolder) release() error {
	err := errors.Join(w.lock.Close(), w.root.Close())
	w.root = nil
	return err
}

// discard removes the folder with its content, and closes it.
func (w *workFolder) discard() error {
	err := errors.Join(w.remove(workNew), w.drop(workReady), w.drop(workOld), w.root.Remove(workLock), w.release())
	if gone := os.Remove(w.path); !errors.Is(gone, fs.ErrExist) { // otherwise another restore has begun in it
		err = errors.Join(err, gone)
	}
	return err
}
