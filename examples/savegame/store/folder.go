package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// waitingFolder holds files until they are flushed. Files that are in it when a store is opened
	// were left by a process that died.
	waitingFolder = "waiting"
	lockFile      = "lock"
	// formatPrefix and format form the name of a file. A program must use a different format if it
	// writes packs that this one would consider damaged, and check --repair would therefore delete.
	formatPrefix, format = "format ", "1"
)

// Folder is a [Store] in a folder of this machine.
type Folder struct {
	catalog
	lock    *os.File              // nil if OpenOn made the Folder
	counter atomic.Uint64         // for the names of files in waitingFolder
	broken  atomic.Pointer[error] // wraps ErrBroken; set at most once
	queue   queue

	// changing is a mutex that holds a token while a batch is committed or objects are deleted. It
	// is taken before names.
	changing chan struct{}
	crowd    string // folder of the last batch, if it had several objects, all in that folder; guarded by changing
}

// Open opens the store in a folder of this machine, and creates it if it doesn't exist. Until Close
// or the end of this process, Open fails with [ErrLocked] in other processes.
func Open(dir string) (*Folder, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
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
		return nil, errors.Join(fmt.Errorf("open store in %s: %w", dir, err), lock.Close())
	}
	f.lock = lock
	return f, nil
}

// OpenOn opens a store on a file system that nothing else uses.
func OpenOn(files Files) (*Folder, error) {
	f := &Folder{catalog: catalog{files: files, folders: make(map[string]map[string]*pack)}, changing: make(chan struct{}, 1)}
	if err := f.checkFormat(); err != nil {
		return nil, err
	}
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
	if err := f.mark(); err != nil && !IsFull(err) { // if the disk is full, a later process does this
		return nil, err
	}
	f.queue.build = f.build
	return f, f.read(".")
}

// mark creates the file that tells the format. Older programs made an empty folder of that name,
// which many programs that copy folders leave out.
func (f *Folder) mark() error {
	name := formatPrefix + format
	info, err := f.files.Stat(name)
	if err == nil && !info.IsDir() || ignoreNotExist(err) != nil {
		return err
	}
	_ = f.files.Remove(name) // if it remains, the next step fails
	b := f.build()
	b.add(name, []byte("a savegame store of format "+format+"\n"), true)
	return f.publish(name, nil, b)
}

// checkFormat returns an error if the store has another format.
func (f *Folder) checkFormat() error {
	entries, err := f.files.ReadDir(".")
	for _, e := range entries {
		if has, ok := strings.CutPrefix(e.Name(), formatPrefix); ok && has != format {
			return fmt.Errorf("store has format %s, of a newer program; this one supports format %s", has, format)
		}
	}
	return err
}

// read flushes a folder and everything in it, because the previous process may have died between a
// rename and its flush, and records the objects.
func (f *Folder) read(dir string) error {
	entries, err := f.files.ReadDir(dir)
	for _, e := range entries {
		if err != nil {
			break
		}
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			err = f.read(name)
		} else if strings.HasPrefix(name, objectsFolder+"/") {
			err = f.found(name)
		}
	}
	return cmp.Or(err, f.files.SyncDir(dir))
}

// Close releases the folder for other processes. No other method may be running, or be called
// afterwards.
func (f *Folder) Close() error {
	if f.lock == nil {
		return nil
	}
	return f.lock.Close()
}

// check returns an error if the store is broken, ctx has ended, or a key is invalid.
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

// While objects are deleted, puts have to wait. Therefore objects of no more than deletedAtOnce
// files are deleted at once, and packs of no more than rewrittenAtOnce bytes, not counting the last
// one, are rewritten at once. A batch of puts makes as many bytes durable.
const (
	deletedAtOnce   = 32
	rewrittenAtOnce = batchBytes
)

// Delete implements [Store]. It also removes folders that become empty. It rewrites each pack only
// once, whatever the order of the keys, and begins with the packs of which the fewest objects
// remain, because each of them frees room for rewriting the next one. After an error it continues
// with the others.
func (f *Folder) Delete(ctx context.Context, keys ...string) error {
	if err := f.check(ctx, keys...); err != nil {
		return err
	}
	var failed error
	packs := f.packsOf(keys)
	remaining := func(p *pack) int { return len(p.objects) - len(packs[p]) }
	order := slices.SortedFunc(maps.Keys(packs), func(a, b *pack) int { return remaining(a) - remaining(b) })
	for len(order) > 0 {
		n := atOnce(order, packs)
		failed = cmp.Or(failed, f.delete(order[:n], packs))
		order = order[n:]
	}
	return failed
}

// atOnce returns how many of the first files to delete objects from at once.
func atOnce(order []*pack, keys map[*pack][]string) (n int) {
	for bytes := int64(0); n < min(len(order), deletedAtOnce) && bytes < rewrittenAtOnce; n++ {
		if p := order[n]; len(keys[p]) < len(p.objects) {
			bytes += p.size()
		}
	}
	return n
}

// packsOf returns the files that contain the given objects, each with its keys.
func (f *Folder) packsOf(keys []string) map[*pack][]string {
	f.names.RLock()
	defer f.names.RUnlock()
	packs := make(map[*pack][]string)
	for _, key := range keys {
		if p := f.packOf(key); p != nil {
			packs[p] = append(packs[p], key)
		}
	}
	return packs
}

// delete deletes objects from the given files.
func (f *Folder) delete(some []*pack, keys map[*pack][]string) (failed error) {
	f.changing <- struct{}{}
	defer func() { <-f.changing }()
	changed := make(map[string]struct{})
	for _, known := range some {
		for p, keys := range f.packsOf(keys[known]) { // looked up again, since another Delete may have rewritten it
			failed = cmp.Or(failed, f.shrink(p, keys, changed))
		}
	}
	for dir := range changed {
		failed = errors.Join(failed, f.sync(dir))
	}
	return failed
}

// remove removes a file, and the folders that become empty.
func (f *Folder) remove(p *pack, changed map[string]struct{}) error {
	f.names.Lock()
	defer f.names.Unlock()
	if err := ignoreNotExist(f.files.Remove(p.name)); err != nil {
		return err
	}
	f.forget(p)
	dir := path.Dir(p.name)
	for ; dir != objectsFolder && f.files.Remove(dir) == nil; dir = path.Dir(dir) { // fails if the folder isn't empty
		delete(changed, dir)
		delete(f.folders, dir)
	}
	changed[dir] = struct{}{}
	return nil
}

// shrink replaces a pack by one without some of its objects, for which the disk needs room. If no
// objects remain, it removes the pack.
func (f *Folder) shrink(p *pack, keys []string, changed map[string]struct{}) error {
	left := maps.Clone(p.objects)
	for _, key := range keys {
		delete(left, path.Base(key))
	}
	if len(left) == 0 {
		return f.remove(p, changed)
	}
	b := f.build()
	for _, name := range slices.Sorted(maps.Keys(left)) {
		data, err := f.get(path.Join(keyOf(path.Dir(p.name)), name))
		b.err = cmp.Or(b.err, err)
		b.pack(name, data)
	}
	return f.publish(p.name, p, b)
}

// build returns a new file in waitingFolder.
func (f *Folder) build() *building {
	name := path.Join(waitingFolder, strconv.FormatUint(f.counter.Add(1), 10))
	return &building{files: f.files, waiting: name, turn: make(chan struct{}, 1), objects: make(map[string]span)}
}

func fileOf(key string) string { return objectsFolder + "/" + key }

func keyOf(file string) string { return strings.TrimPrefix(file, objectsFolder+"/") }

// Put implements [Store]. It ignores ctx while it waits. Objects that are put while others are
// being made durable are afterwards made durable together.
func (f *Folder) Put(ctx context.Context, key string, data []byte) error {
	wait, err := f.start(ctx, key, data, true)
	if err == nil {
		err = wait()
	}
	return err
}

// Start implements [Store].
func (f *Folder) Start(ctx context.Context, key string, data []byte) (wait func() error, err error) {
	return f.start(ctx, key, data, false)
}

// start is like Start. If lent is true, data doesn't change until wait returns, so it needn't be
// copied.
func (f *Folder) start(ctx context.Context, key string, data []byte, lent bool) (wait func() error, err error) {
	if err := f.check(ctx, key); err != nil {
		return nil, err
	}
	b, in, first := f.queue.join(key, len(data))
	if in == nil {
		<-b.done
		return f.start(ctx, key, data, lent) // finds the object of the other Put, or tries again if that failed
	}
	if first {
		go f.commit(b)
	}
	defer b.adding.Done()
	if err := f.absent(key); err != nil {
		f.queue.leave(b, key)
		return nil, err
	}
	in.add(key, data, lent)
	return func() error { <-b.done; return in.err }, nil
}

// commit makes a batch durable after the previous one.
func (f *Folder) commit(b *batch) {
	f.changing <- struct{}{}
	if b.folder == f.crowd {
		b.gather()
	}
	f.queue.setCommitted(b)
	b.each(f.put)
	f.crowd = b.crowd()
	f.queue.setCommitted(nil)
	<-f.changing
	close(b.done)
}

// absent returns an error if a key already has an object, is the folder of other objects, or is in
// a folder that is an object.
func (f *Folder) absent(key string) error {
	f.names.RLock()
	defer f.names.RUnlock()
	for folder := path.Dir(key); folder != "."; folder = path.Dir(folder) {
		if f.packOf(folder) != nil {
			return fmt.Errorf("%w: %s is an object, so it cannot contain %s", ErrKey, folder, key)
		}
	}
	info, err := f.files.Stat(fileOf(key))
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%w: %s is a folder of other objects", ErrKey, key)
	case err == nil || f.packOf(key) != nil:
		return &fs.PathError{Op: "put", Path: key, Err: fs.ErrExist}
	default:
		return ignoreNotExist(err)
	}
}

// put gives a new file in a folder its name: that of its object's key or, if it has several
// objects, that of a pack.
func (f *Folder) put(folder string, b *building) error {
	if b.first == "" {
		return nil // all its objects existed already
	}
	if b.archive == nil {
		return f.publish(fileOf(b.first), nil, b)
	}
	return f.publish(packName(fileOf(folder)), nil, b)
}

// publish flushes the bytes of a file and then gives it its name, durably. If old isn't nil, it
// replaces that file.
func (f *Folder) publish(name string, old *pack, b *building) error {
	err := b.finish()
	if err == nil {
		err = f.rename(name, old, b)
	}
	if err != nil {
		_ = f.files.Remove(b.waiting) // or the next Open removes it
		return err
	}
	return f.sync(path.Dir(name)) // concurrent calls share one write of the file system's journal
}

// rename gives a file its name, and records its objects.
func (f *Folder) rename(name string, old *pack, b *building) error {
	info, err := f.files.Stat(b.waiting)
	if err != nil {
		return err
	}
	f.names.Lock()
	defer f.names.Unlock()
	if err = f.mkdirAll(path.Dir(name)); err == nil {
		err = f.files.Rename(b.waiting, name)
	}
	if err != nil {
		return err
	}
	if old != nil {
		f.forget(old)
	}
	f.remember(&pack{name, info.ModTime(), b.objects})
	return nil
}

// mkdirAll creates a folder and its parents, durably, because others that find a folder rely on
// that.
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

// sync flushes a folder, unless it has been removed in the meantime. If that fails, the store is
// broken.
func (f *Folder) sync(dir string) error {
	if err := f.files.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrBroken, err)
		f.broken.CompareAndSwap(nil, &err)
	}
	return f.check(context.Background()) // the error may have been reported to another flush of the folder
}

// List implements [Store].
func (f *Folder) List(ctx context.Context, dir string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		err := f.check(ctx)
		if dir != "" {
			err = cmp.Or(err, CheckKey(dir))
		}
		if err != nil {
			yield(Object{}, err)
			return
		}
		for _, o := range f.objects(path.Join(objectsFolder, dir)) {
			if !yield(o, nil) {
				return
			}
		}
	}
}
