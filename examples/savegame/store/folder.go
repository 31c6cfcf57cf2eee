package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
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
