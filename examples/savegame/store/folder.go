package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	catalog
	lock    *os.File              // nil: OpenOn made it
	counter atomic.Uint64         // names what waits
	broken  atomic.Pointer[error] // set once
	queue   queue

	// changing holds a token while a batch is put or something deleted, so that nothing else changes what there is. Taken before names.
	changing chan struct{}
	crowd    string // the folder of the last batch, if it had several objects of it; owned by who has the token
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
	f := &Folder{catalog: catalog{files: files, packed: make(map[string]places)}, changing: make(chan struct{}, 1)}
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
	return f.get(key)
}

// Room implements [Store].
func (f *Folder) Room(context.Context) (int64, error) { return f.files.Free() }

// deletedAtOnce bounds how long a delete keeps puts from the store.
const deletedAtOnce = 256

// Delete implements [Store]. Folders that it leaves empty go as well. Each pack is written again once, whatever the order of the keys: those of
// which least stays go first, as each gives room to write the next one. After an error it goes on with the others.
func (f *Folder) Delete(ctx context.Context, keys ...string) error {
	if err := f.check(ctx, keys...); err != nil {
		return err
	}
	single, packed, err := f.sort(keys)
	for some := range slices.Chunk(single, deletedAtOnce) {
		err = cmp.Or(err, f.delete(some))
	}
	stay := func(p *pack) int { return len(p.objects) - len(packed[p]) }
	for _, p := range slices.SortedFunc(maps.Keys(packed), func(a, b *pack) int { return stay(a) - stay(b) }) {
		err = cmp.Or(err, f.delete(packed[p]))
	}
	return err
}

// sort tells keys of objects that have a file of their own from those in packs. Its error is of keys that are in neither.
func (f *Folder) sort(keys []string) (single []string, packed map[*pack][]string, err error) {
	packed = make(map[*pack][]string)
	for _, key := range keys {
		at, isPacked, lookErr := f.find(key)
		switch {
		case lookErr != nil:
			err = cmp.Or(err, lookErr)
		case isPacked:
			packed[at.pack] = append(packed[at.pack], key)
		default:
			single = append(single, key)
		}
	}
	return single, packed, err
}

func (f *Folder) delete(keys []string) error {
	f.changing <- struct{}{}
	defer func() { <-f.changing }()
	single, packed, failed := f.sort(keys) // others may have changed packs
	changed := make(map[string]struct{})
	for _, key := range single {
		failed = cmp.Or(failed, f.remove(fileOf(key), nil, changed))
	}
	for p, keys := range packed {
		failed = cmp.Or(failed, f.shrink(p, keys, changed))
	}
	for dir := range changed {
		failed = errors.Join(failed, f.sync(dir))
	}
	return failed
}

// remove removes a file, an object or a pack of some, and the folders that are empty then.
func (f *Folder) remove(name string, packed []string, changed map[string]struct{}) error {
	f.names.Lock()
	defer f.names.Unlock()
	switch err := f.files.Remove(name); { // that of a folder fails: there is something in it
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	dir := path.Dir(name)
	f.forget(dir, packed)
	for ; dir != objectsFolder && f.files.Remove(dir) == nil; dir = path.Dir(dir) {
		delete(changed, dir)
		delete(f.packed, dir)
	}
	changed[dir] = struct{}{}
	return nil
}

// shrink writes a pack again without some of its objects, in its place, for which the disk needs room. One that holds no others goes.
func (f *Folder) shrink(p *pack, keys []string, changed map[string]struct{}) error {
	var gone []string
	for _, key := range keys {
		gone = append(gone, path.Base(key))
	}
	left := slices.DeleteFunc(slices.Clone(p.objects), func(name string) bool { return slices.Contains(gone, name) })
	if len(left) == 0 {
		return f.remove(p.name, gone, changed)
	}
	return f.showPack(&pack{name: p.name, time: p.time}, gone, func(yield func(newObject, error) bool) {
		for _, name := range left {
			data, err := f.get(path.Join(keyOf(path.Dir(p.name)), name))
			if !yield(newObject{key: name, data: data}, err) {
				return
			}
		}
	})
}

func fileOf(key string) string { return objectsFolder + "/" + key }

func keyOf(file string) string { return strings.TrimPrefix(file, objectsFolder+"/") }

// Put implements [Store]. It does not heed ctx once it waits. What is put while others are made durable waits until they are, and is made so
// together.
func (f *Folder) Put(ctx context.Context, key string, data []byte) error {
	if err := f.check(ctx, key); err != nil {
		return err
	}
	o := &newObject{key: key, data: data}
	b, first := f.queue.join(o)
	if first {
		f.changing <- struct{}{}
		if path.Dir(key) == f.crowd {
			b.gather()
		}
		f.queue.close()
		f.crowd = b.crowd()
		for _, o := range b.objects {
			o.err = f.absent(o.key)
		}
		b.each(f.put)
		<-f.changing
		close(b.done)
	}
	<-b.done
	return o.err
}

// absent fails where a key has an object already, or is a folder of others, or in one that is an object in a pack.
func (f *Folder) absent(key string) error {
	for folder := path.Dir(key); folder != "."; folder = path.Dir(folder) {
		if _, packed, err := f.find(folder); packed || err != nil {
			return cmp.Or(err, fmt.Errorf("%w: %s is an object, and no folder for %s", ErrKey, folder, key))
		}
	}
	_, packed, err := f.find(key)
	if err != nil {
		return err
	}
	switch info, err := f.files.Stat(fileOf(key)); {
	case err == nil && info.IsDir():
		return fmt.Errorf("%w: %s is a folder of others", ErrKey, key)
	case err == nil || packed:
		return &fs.PathError{Op: "put", Path: key, Err: fs.ErrExist}
	default:
		return missing(err)
	}
}

// put makes objects of one folder: one alone is a file, several are a pack.
func (f *Folder) put(folder string, objects []*newObject) error {
	if first := objects[0]; len(objects) == 1 {
		return f.show(fileOf(first.key), func(w io.Writer) error {
			_, err := w.Write(first.data)
			return err
		}, func() {})
	}
	return f.showPack(&pack{name: packName(fileOf(folder))}, nil, func(yield func(newObject, error) bool) {
		for _, o := range objects {
			if !yield(*o, nil) {
				return
			}
		}
	})
}

// showPack writes a pack. What one of its name held besides is gone then.
func (f *Folder) showPack(p *pack, gone []string, objects iter.Seq2[newObject, error]) error {
	var all places
	return f.show(p.name, func(w io.Writer) (err error) {
		all, err = p.write(w, objects)
		return err
	}, func() { f.remember(p, gone, all) })
}

// show makes a file durably: its bytes are flushed before it has its name. Then it calls shown, for which names are locked.
func (f *Folder) show(name string, fill func(io.Writer) error, shown func()) error {
	waiting := path.Join(waitingFolder, strconv.FormatUint(f.counter.Add(1), 10))
	err := f.write(waiting, fill)
	if err == nil {
		err = f.rename(waiting, name, shown)
	}
	if err != nil {
		_ = f.files.Remove(waiting) // or the next Open does
		return err
	}
	return f.sync(path.Dir(name)) // many at once do so in one write of the file system's journal
}

// write makes a file whose bytes are durable.
func (f *Folder) write(name string, fill func(io.Writer) error) error {
	file, err := f.files.Create(name)
	if err != nil {
		return err
	}
	if err = fill(file); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func (f *Folder) rename(waiting, name string, shown func()) error {
	f.names.Lock()
	defer f.names.Unlock()
	err := f.mkdirAll(path.Dir(name))
	if err == nil {
		err = f.files.Rename(waiting, name)
	}
	if err == nil {
		shown()
	}
	return err
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
	var entries []entry
	if err == nil {
		entries, err = f.entries(dir)
	}
	if err != nil {
		return yield(Object{}, err)
	}
	for _, e := range entries {
		o, err := e.object()
		switch {
		case e.isDir():
			if !f.list(ctx, o.Key, yield) {
				return false
			}
		case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
		case !yield(o, err):
			return false
		}
	}
	return true
}
