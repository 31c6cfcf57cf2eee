package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
)

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
