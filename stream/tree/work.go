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

// workPrefix begins the name of every work folder.
const workPrefix = ".quiver-"

// workName matches the name of a work folder and, almost certainly, nothing else.
var workName = regexp.MustCompile(`^\.quiver-[0-9a-f]{16}$`)

// Names in a work folder.
const (
	workLock  = "lock"
	workNew   = "new"   // staged content
	workReady = "ready" // staged content, about to be put in place; after an exchange, old content
	workOld   = "old"   // old content, where names can't be exchanged
	workGone  = "gone"  // old content that is being removed
)

// A workFolder is the folder in which a restore stages the new content and to which it moves
// the old content. It's beside the target, because a rename only works within one file system.
//
// A crash can leave it in any state. The next restore of the target cleans it up (see cleanUp).
type workFolder struct {
	path string
	root *os.Root // nil once the folder is closed
	lock *os.File // keeps other restores out until it's closed
}

// Tests replace these to simulate a file system that has no locks or can't exchange names.
var (
	tryLock  = files.TryLock
	exchange = files.Exchange
)

// errForeign means that a file or folder with the work folder's name exists, but isn't ours.
var errForeign = errors.New("somebody else's, and a restore needs the name")

// workPath returns the path of the work folder for a target. The name depends only on the
// target, so the next restore finds the folder again.
func workPath(target string) string {
	name := cdc.Sum([]byte(filepath.Base(target)))
	return filepath.Join(filepath.Dir(target), workPrefix+hex.EncodeToString(name[:8]))
}

// openWork opens the work folder for a target and locks it. It creates the folder unless an
// earlier restore has left one.
func openWork(target string) (*workFolder, error) {
	p := workPath(target)
	mkdirErr := os.Mkdir(p, 0o700)
	if mkdirErr != nil && !errors.Is(mkdirErr, fs.ErrExist) {
		return nil, mkdirErr
	}
	// Anybody could have put a folder with this name there, in /tmp for example.
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
	if err := acquire(lock, p); err != nil {
		return nil, errors.Join(err, lock.Close(), root.Close())
	}
	return &workFolder{p, root, lock}, nil
}

// acquire locks the lock file of the work folder at p. It returns ErrBusy if another restore
// has the lock.
func acquire(lock *os.File, p string) error {
	err := tryLock(lock)
	switch {
	case errors.Is(err, files.ErrLocked):
		return ErrBusy
	case !files.Stands(lock):
		// Another restore held the lock until just now, and removed the file when it finished.
		// Our lock would be on a deleted file, which no other restore can see.
		return ErrBusy
	case err != nil:
		return fmt.Errorf("lock in %s: %w", p, err)
	}
	return nil
}

// chmodIn is a variable so that tests can simulate a file system without modes.
var chmodIn = (*os.Root).Chmod

// chmod sets the mode of a name, if the file system has modes at all.
func (w *workFolder) chmod(name string, mode fs.FileMode) error {
	return ignoreUnsupported(chmodIn(w.root, name, mode))
}

// cleanUp finishes the work of an earlier restore that crashed during or after publish. kept is
// a [*KeptError] if old content had to be kept, and otherwise nil.
func (w *workFolder) cleanUp(
	ctx context.Context,
	target string,
	mayReplace func(context.Context, string) error,
) (kept, err error) {
	if _, err := os.Lstat(target); errors.Is(err, fs.ErrNotExist) {
		// The earlier restore may have crashed after it moved the old content aside.
		// Move the content back.
		err := os.Rename(filepath.Join(w.path, workOld), target)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	kept, err = w.rescue(ctx, target, mayReplace)
	if err != nil {
		return nil, errors.Join(err, kept)
	}
	// The old content that is left may be removed.
	return kept, errors.Join(w.removeReplaced(workOld), w.removeReplaced(workReady))
}

// publish puts the staged content in place and moves the old content into the work folder, in
// one step if the system can do that.
func (w *workFolder) publish(target string) error {
	// An exchange leaves the old content under the name that the new content had. That name
	// must not be workNew. Otherwise, after a crash, the next restore would take the old
	// content for staged content.
	if err := w.root.Rename(workNew, workReady); err != nil {
		return err
	}
	if err := w.swap(filepath.Join(w.path, workReady), target); err != nil {
		return errors.Join(err, w.root.Rename(workReady, workNew))
	}
	return errors.Join(flushFolder(w.path), flushFolder(filepath.Dir(target)))
}

// swap moves ready to target, and the old content, if there is any, into the work folder. The
// old content is then at workReady if the system can exchange names, and otherwise at workOld.
func (w *workFolder) swap(ready, target string) error {
	old, err := os.Lstat(target)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err == nil && old.IsDir() && old.Mode()&0o200 == 0 {
		// A folder without write permission can't be moved.
		_ = os.Chmod(target, old.Mode()|0o200)
	}
	if exchange(ready, target) == nil {
		return nil
	}

	// The system can't exchange names. A rename can still replace a file with a file, but the
	// old file would be lost. To keep it, create a second link to it.
	aside := filepath.Join(w.path, workOld)
	_ = os.Link(target, aside) // fails if target is a folder
	if err := os.Rename(ready, target); err == nil || isNew {
		return err
	}
	_ = os.Remove(aside)

	// A rename can't replace a folder, so move the old folder aside first. If we crash between
	// the two renames, there is nothing at target until cleanUp moves the folder back.
	if err := os.Rename(target, aside); err != nil {
		return err
	}
	if err := os.Rename(ready, target); err != nil {
		return errors.Join(err, os.Rename(aside, target))
	}
	return nil
}

// A KeptError means that the restore is complete, but that somebody changed the old content at
// the last moment. The old content has been kept beside the target.
type KeptError struct {
	Path string // where the content is now
}

func (e *KeptError) Error() string {
	return "what was there was written to at the last moment, and is kept as " + e.Path
}

// rescue asks mayReplace whether the old content in the work folder may be removed. Content
// that must be kept is moved to an unused name beside the target, and reported as a
// [*KeptError] in kept.
//
// If some content can't be moved, or ctx ends, rescue returns an error and leaves the content
// in the work folder. The caller must not remove anything in this case.
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
			// mayReplace may have failed only because ctx ended, which says nothing about the
			// content.
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

// conflictPath returns an unused path beside the target: the target's name with the time added,
// cut to the 255 bytes that file systems allow.
func conflictPath(target string) string {
	dir, name := filepath.Split(target)
	for now := time.Now(); ; now = now.Add(time.Millisecond) {
		suffix := now.Format(" (conflict 2006-01-02 15.04.05.000)")
		aside := dir + strings.ToValidUTF8(name[:min(len(name), 255-len(suffix))], "") + suffix
		// Usually the error is fs.ErrNotExist. If it's a different error, trying other names
		// won't help, and the caller's rename will fail as well.
		if _, err := os.Lstat(aside); err != nil {
			return aside
		}
	}
}

// removeReplaced removes old content. It renames the content first, because a crash could
// leave it half removed. To the next restore, the rest would look like a folder in which
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

// removeAllIn is a variable so that tests can simulate a process that is killed.
var removeAllIn = (*os.Root).RemoveAll

// remove removes everything at name, even from folders without write permission.
func (w *workFolder) remove(name string) error {
	if err := removeAllIn(w.root, name); err == nil {
		return nil
	}
	// Files can only be removed from a folder that we may write to.
	walkErr := fs.WalkDir(w.root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = w.chmod(p, 0o700) // WalkDir calls us before it reads the folder
		}
		return err
	})
	return errors.Join(walkErr, removeAllIn(w.root, name))
}

// close closes the folder. It also removes the folder, unless it still holds something that the
// next restore needs: staged content, or old content that rescue hasn't dealt with. Closing a
// closed folder is a no-op.
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

// release closes and unlocks the folder, but leaves everything in it.
func (w *workFolder) release() error {
	err := errors.Join(w.lock.Close(), w.root.Close())
	w.root = nil
	return err
}

// discard closes the folder and removes it with everything in it.
func (w *workFolder) discard() error {
	err := errors.Join(
		w.remove(workNew),
		w.removeReplaced(workReady),
		w.removeReplaced(workOld),
		w.root.Remove(workLock),
		w.release(),
	)
	// The folder has been unlocked. If another restore has opened it since, it isn't empty, and
	// we get fs.ErrExist.
	if removeErr := os.Remove(w.path); !errors.Is(removeErr, fs.ErrExist) {
		err = errors.Join(err, removeErr)
	}
	return err
}
