package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/examples/savegame/flock"
)

const (
	objectsFolder = "objects"
	// waitingFolder holds objects until they are flushed. What is in it when a store is opened is a dead process's.
	waitingFolder = "waiting"
	lockFile      = "lock"
)

// Folder is a [Store] in a folder of this machine.
type Folder struct {
	files   Files
	lock    *os.File              // nil: OpenOn made it
	counter atomic.Uint64         // names what waits
	broken  atomic.Pointer[error] // set once

	names sync.Mutex // held by whoever changes names among the objects
}

// Open opens the store in a folder of this machine, makes it where it is missing, and has it alone until Close or the
// end of the process: meanwhile others fail with [ErrLocked].
func Open(dir string) (*Folder, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	lock, err := takeLock(filepath.Join(dir, lockFile))
	if err != nil {
		return nil, err
	}
	f, err := OpenOn(disk{dir})
	if err == nil {
		err = disk{filepath.Dir(dir)}.SyncDir(".") // the folder may be new
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store in %s: %w", dir, err), lock.Close())
	}
	f.lock = lock
	return f, nil
}

// OpenOn opens a store on a file system that nobody else uses.
func OpenOn(files Files) (*Folder, error) {
	f := &Folder{files: files}
	for _, dir := range []string{objectsFolder, waitingFolder} {
		if err := f.mkdirAll(dir); err != nil {
			return nil, err
		}
	}
	waiting, err := files.ReadDir(waitingFolder)
	if err != nil {
		return nil, err
	}
	for _, e := range waiting {
		if err := files.Remove(path.Join(waitingFolder, e.Name())); err != nil {
			return nil, err
		}
	}
	return f, f.syncAll(".")
}

// syncAll flushes a folder and all in it: the process before may have died between a rename and its flush.
func (f *Folder) syncAll(dir string) error {
	entries, err := f.files.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := f.syncAll(path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return f.files.SyncDir(dir)
}

// Close gives the folder to others. Nothing may be called meanwhile or afterwards.
func (f *Folder) Close() error {
	if f.lock == nil {
		return nil
	}
	return f.lock.Close()
}

// check fails where nothing may be done, or not for that key.
func (f *Folder) check(ctx context.Context, keys ...string) error {
	if err := f.broken.Load(); err != nil {
		return *err
	}
	err := context.Cause(ctx)
	for _, key := range keys {
		err = cmp.Or(CheckKey(key), err)
	}
	return err
}

// Get implements [Store].
func (f *Folder) Get(ctx context.Context, key string) ([]byte, error) {
	if err := f.check(ctx, key); err != nil {
		return nil, err
	}
	return f.files.Read(fileOf(key))
}

// Room implements [Store].
func (f *Folder) Room(context.Context) (int64, error) { return f.files.Free() }

// Delete implements [Store]. Folders that it leaves empty go as well.
func (f *Folder) Delete(ctx context.Context, keys ...string) error {
	if err := f.check(ctx, keys...); err != nil {
		return err
	}
	f.names.Lock()
	defer f.names.Unlock()
	changed := make(map[string]struct{})
	var failed error
	for _, key := range keys {
		if failed = f.remove(fileOf(key), changed); failed != nil {
			break
		}
	}
	for dir := range changed {
		failed = errors.Join(failed, f.sync(dir))
	}
	return failed
}

func (f *Folder) remove(name string, changed map[string]struct{}) error {
	switch err := f.files.Remove(name); { // that of a folder fails: there is something in it
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	dir := path.Dir(name)
	for ; dir != objectsFolder && f.files.Remove(dir) == nil; dir = path.Dir(dir) {
		delete(changed, dir)
	}
	changed[dir] = struct{}{}
	return nil
}

func fileOf(key string) string { return objectsFolder + "/" + key }

// Put implements [Store]. It does not heed ctx once it writes.
func (f *Folder) Put(ctx context.Context, key string, data []byte) error {
	if err := f.check(ctx, key); err != nil {
		return err
	}
	waiting := path.Join(waitingFolder, strconv.FormatUint(f.counter.Add(1), 10))
	err := f.write(waiting, data)
	if err == nil {
		err = f.show(waiting, fileOf(key))
	}
	if err != nil {
		_ = f.files.Remove(waiting) // or the next Open does
	}
	return err
}

// write makes a file whose bytes are durable.
func (f *Folder) write(name string, data []byte) error {
	file, err := f.files.Create(name)
	if err != nil {
		return err
	}
	if _, err = file.Write(data); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// show gives what waits its name, durably: many at once do so in one write of the file system's journal. What has the name already is
// durable too before that is said, whoever made it.
func (f *Folder) show(waiting, name string) error {
	err := f.rename(waiting, name)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return cmp.Or(f.sync(path.Dir(name)), err)
}

// rename gives what waits a name that nothing has. That nobody else does meanwhile is what names is locked for, and the folder.
func (f *Folder) rename(waiting, name string) error {
	f.names.Lock()
	defer f.names.Unlock()
	switch info, err := f.files.Stat(name); {
	case err == nil && info.IsDir():
		return fmt.Errorf("%w: %s is a folder of others", ErrKey, name)
	case err == nil:
		return &fs.PathError{Op: "put", Path: name, Err: fs.ErrExist}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := f.mkdirAll(path.Dir(name)); err != nil {
		return err
	}
	return f.files.Rename(waiting, name)
}

// mkdirAll makes a folder and those which it is in, durably: whoever finds a folder relies on that.
func (f *Folder) mkdirAll(name string) error {
	err := f.files.Mkdir(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = f.mkdirAll(path.Dir(name)); err == nil {
			err = f.files.Mkdir(name)
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return f.sync(path.Dir(name))
}

// sync flushes a folder, unless it went meanwhile, with all in it. The store is broken when that fails.
func (f *Folder) sync(dir string) error {
	if err := f.files.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrBroken, err)
		f.broken.CompareAndSwap(nil, &err)
	}
	return f.check(context.Background()) // another flush may have failed, and taken the error with it
}

// List implements [Store].
func (f *Folder) List(ctx context.Context, dir string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := CheckKey(dir); dir != "" && err != nil {
			yield(Object{}, err)
			return
		}
		f.list(ctx, dir, yield)
	}
}

// list is List, also of a folder that others made. It reports whether to go on.
func (f *Folder) list(ctx context.Context, dir string, yield func(Object, error) bool) bool {
	err := f.check(ctx)
	var entries []fs.DirEntry
	if err == nil {
		entries, err = f.files.ReadDir(path.Join(objectsFolder, dir))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // that one has become empty
		return yield(Object{}, err)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			if !f.list(ctx, name, yield) {
				return false
			}
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		o := Object{Key: name}
		if err == nil {
			o.Size, o.Time = info.Size(), info.ModTime()
		}
		if !yield(o, err) {
			return false
		}
	}
	return true
}

// takeLock takes a lock file until it is closed, and writes down who has it.
func takeLock(path string) (*os.File, error) {
	f, err := flock.Wait(path, 0)
	if errors.Is(err, flock.ErrHeld) {
		holder, _ := os.ReadFile(path) // empty: it is just being written
		return nil, fmt.Errorf("folder %s is %w by another process, %s", filepath.Dir(path), ErrLocked, holder)
	}
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // only to be read by people
	holder := fmt.Appendf(nil, "number %d on %s, since %s", os.Getpid(), host, time.Now().UTC().Format("2006-01-02 15:04:05 UTC"))
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt(holder, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the store: %w", err), f.Close())
	}
	return f, nil
}
