package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"golang.org/x/sync/errgroup"
)

// waiting is an object that is written, flushed and not yet shown.
type waiting struct {
	name string // of its file, in the folder of the waiting
	key  string
	err  error
}

// batch is the objects that are shown together.
type batch struct {
	objects []*waiting
	done    chan struct{} // closed when all have their err
}

// Put implements [Store]. It does not heed ctx once it writes.
func (f *Folder) Put(ctx context.Context, key string, data []byte) error {
	if err := f.check(ctx, key); err != nil {
		return err
	}
	w := &waiting{name: path.Join(waitingFolder, strconv.FormatUint(f.counter.Add(1), 10)), key: key}
	if err := f.write(w.name, data); err != nil {
		return err
	}
	f.await(w)
	return w.err
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
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, f.files.Remove(name))
	}
	return err
}

// await returns when w is shown, durably. Who comes first while others are being shown is next, for all who come until then.
func (f *Folder) await(w *waiting) {
	f.mu.Lock()
	b, first := f.next, f.next == nil
	if first {
		b = &batch{done: make(chan struct{})}
		f.next = b
	}
	b.objects = append(b.objects, w)
	f.mu.Unlock()
	if !first {
		<-b.done
		return
	}
	f.names.Lock()
	f.mu.Lock()
	f.next = nil
	f.mu.Unlock()
	f.show(b.objects)
	f.names.Unlock()
	close(b.done)
}

// show gives objects their names and flushes the folders.
func (f *Folder) show(objects []*waiting) {
	changed := make(map[string]struct{})
	for _, w := range objects {
		w.err = f.name(w, changed)
	}
	err := f.syncDirs(changed)
	for _, w := range objects {
		if w.err == nil {
			w.err = err
			continue
		}
		_ = f.files.Remove(w.name) // or the next Open does
		if err != nil && errors.Is(w.err, fs.ErrExist) {
			w.err = err // the object that is there may be of the same batch
		}
	}
}

// name gives an object its name. That nobody else does meanwhile is what names is locked for, and the folder.
func (f *Folder) name(w *waiting, changed map[string]struct{}) error {
	name := fileOf(w.key)
	if err := f.check(context.Background()); err != nil {
		return err
	}
	switch info, err := f.files.Stat(name); {
	case err == nil && info.IsDir():
		return fmt.Errorf("%w %q: it is a folder of others", ErrKey, w.key)
	case err == nil:
		return &fs.PathError{Op: "put", Path: w.key, Err: fs.ErrExist}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	dir := path.Dir(name)
	if err := mkdirAll(f.files, dir, changed); err != nil {
		return err
	}
	changed[dir] = struct{}{}
	return f.files.Rename(w.name, name)
}

// syncDirs flushes folders, some at once, which makes one write of them. The store is broken when that fails.
func (f *Folder) syncDirs(dirs map[string]struct{}) error {
	var flushing errgroup.Group
	flushing.SetLimit(flushers)
	for dir := range dirs {
		flushing.Go(func() error { return f.files.SyncDir(dir) })
	}
	err := flushing.Wait()
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrBroken, err)
		f.broken.CompareAndSwap(nil, &err)
	}
	return err
}
