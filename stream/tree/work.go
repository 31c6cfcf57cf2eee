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

// workName fits a work folder's name and, as good as always, nobody else's.
var workName = regexp.MustCompile(`^\.quiver-[0-9a-f]{16}$`)

// What is in a work folder.
const (
	workLock  = "lock"
	workNew   = "new"   // what is staged
	workReady = "ready" // what was staged and is about to go to its place; after an exchange, what it replaced
	workOld   = "old"   // what stood in the place and was moved aside
	workGone  = "gone"  // what is being removed
)

// workFolder is where files are staged, beside their target and so on the same file system.
type workFolder struct {
	path string
	root *os.Root
	lock *os.File // holds others off until it is closed
}

// What a test replaces: by a file system that has no locks, and by one that cannot swap names.
var (
	tryLock  = files.TryLock
	exchange = files.Exchange
)

// errForeign means that somebody else made what has a work folder's name.
var errForeign = errors.New("somebody else's, and a restore needs the name")

// workPath returns the work folder of a target.
func workPath(target string) string {
	name := cdc.Sum([]byte(filepath.Base(target)))
	return filepath.Join(filepath.Dir(target), workPrefix+hex.EncodeToString(name[:8]))
}

// openWork makes the work folder of a target, or opens what an earlier restore left.
func openWork(target string) (*workFolder, error) {
	p := workPath(target)
	made := os.Mkdir(p, 0o700)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return nil, made
	}
	info, err := os.Lstat(p)
	if err != nil || !info.IsDir() || made != nil && !files.IsMine(p, info) { // somebody else's, in /tmp
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
	if err = tryLock(lock); errors.Is(err, files.ErrLocked) || !files.Stands(lock) { // who held it may have removed it before we got it
		err = ErrBusy
	} else if err != nil {
		err = fmt.Errorf("lock in %s: %w", p, err)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close(), root.Close())
	}
	return &workFolder{p, root, lock}, nil
}

// chmod is what a test replaces by a file system that keeps no modes.
var chmod = (*os.Root).Chmod

// chmod gives a name its mode, where the file system has any.
func (w *workFolder) chmod(name string, mode fs.FileMode) error {
	return tolerate(chmod(w.root, name, mode))
}

// cleanUp ends what a crash in publish, or behind it, has left undone: what was moved aside goes back when nothing has come in its place, and
// else rescue asks about it.
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

// publish puts what is staged in its place, and what was there into the work folder: in one step where the system can.
func (w *workFolder) publish(target string) error {
	if err := w.root.Rename(workNew, workReady); err != nil { // so that no crash has it taken for something staged
		return err
	}
	if err := w.swap(filepath.Join(w.path, workReady), target); err != nil {
		return errors.Join(err, w.root.Rename(workReady, workNew))
	}
	return errors.Join(flushFolder(w.path), flushFolder(filepath.Dir(target)))
}

// swap puts what is ready in the place of target, and what was there into the work folder: as workReady after an exchange, else as workOld.
func (w *workFolder) swap(ready, target string) error {
	old, err := os.Lstat(target)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err == nil && old.IsDir() && old.Mode()&0o200 == 0 { // such a folder cannot be moved
		_ = os.Chmod(target, old.Mode()|0o200)
	}
	if exchange(ready, target) == nil {
		return nil
	}
	aside := filepath.Join(w.path, workOld)
	_ = os.Link(target, aside)                                // fails for a folder
	if err := os.Rename(ready, target); err == nil || isNew { // a file takes the place of a file
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

// KeptError means that the restore is done, and that what stood at its target was written to at the last moment and is kept beside it.
type KeptError struct {
	Path string // of what is kept
}

func (e *KeptError) Error() string {
	return "what was there was written to at the last moment, and is kept as " + e.Path
}

// rescue asks about what was replaced, and returns in kept a [*KeptError] when it had to move that to a name of its own. What cannot be moved
// stays where it is, as all does when ctx ends first.
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

// beside returns a name that nothing has, made of the target's name, shortened to what file systems take (255 bytes), and the time.
func beside(target string) string {
	dir, name := filepath.Split(target)
	for now := time.Now(); ; now = now.Add(time.Millisecond) {
		suffix := now.Format(" (conflict 2006-01-02 15.04.05.000)")
		aside := dir + strings.ToValidUTF8(name[:min(len(name), 255-len(suffix))], "") + suffix
		if _, err := os.Lstat(aside); err != nil { // after any error but fs.ErrNotExist the rename fails too
			return aside
		}
	}
}

// drop removes what was replaced. It renames that first: what a crash leaves of it would look to the next restore like a folder in which
// somebody has deleted files.
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

// removeAll is what a test replaces by a process that is killed.
var removeAll = (*os.Root).RemoveAll

// remove removes what is at name, if there is anything, also from folders that may not be written to.
func (w *workFolder) remove(name string) error {
	if err := removeAll(w.root, name); err == nil {
		return nil
	}
	return errors.Join(fs.WalkDir(w.root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = w.chmod(p, 0o700) // it is read after this
		}
		return err
	}), removeAll(w.root, name))
}

// close closes the folder, and removes it unless it holds what is staged, or what rescue has yet to ask about or could not move. It does nothing
// when the folder is closed already.
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

// release closes the folder and gives up its lock; what is in it stays.
func (w *workFolder) release() error {
	err := errors.Join(w.lock.Close(), w.root.Close())
	w.root = nil
	return err
}

// discard removes the folder with all that is in it, and closes it.
func (w *workFolder) discard() error {
	err := errors.Join(w.remove(workNew), w.drop(workReady), w.drop(workOld), w.root.Remove(workLock), w.release())
	if gone := os.Remove(w.path); !errors.Is(gone, fs.ErrExist) { // another restore has begun in it
		err = errors.Join(err, gone)
	}
	return err
}
