package storetest

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quivernet/quiver/examples/savegame/store"
)

// ErrDead is the error of every call after the power was cut.
var ErrDead = errors.New("the power is off")

// Forgetful is a file system in memory that knows what was flushed. When the power is
// cut, each name and each file that was not flushed may be as it was or as it had become,
// and a file also half written; random numbers decide. It is safe for concurrent use.
type Forgetful struct {
	Space int64            // what Free returns
	Now   func() time.Time // nil: time.Now

	mu    sync.Mutex
	rand  *rand.Rand
	root  *node
	calls int
	limit int // the call at which the power is cut; 0 = never
}

// A node is a file or a folder.
type node struct {
	dir            bool
	names, durable map[string]*node // of a folder: its entries now, and when it was flushed last
	data           []byte
	flushed        bool // of a file: data is durable
	modified       time.Time
}

func newFolder() *node {
	return &node{dir: true, names: make(map[string]*node), durable: make(map[string]*node)}
}

var _ store.Files = (*Forgetful)(nil)

// NewForgetful returns an empty file system.
func NewForgetful(r *rand.Rand) *Forgetful {
	return &Forgetful{Space: 1 << 40, rand: r, root: newFolder()}
}

// CutAt cuts the power at the n-th call from now on that changes something or flushes; 0 = never.
func (f *Forgetful) CutAt(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.limit = 0, n
}

// Dead reports whether the power is off.
func (f *Forgetful) Dead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead()
}

func (f *Forgetful) dead() bool { return f.limit > 0 && f.calls >= f.limit }

// Reboot switches the power on again, and decides what is lost of what was not
// flushed. If only the process died nothing is lost.
func (f *Forgetful) Reboot(processOnly bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.limit = 0, 0
	if !processOnly {
		f.forget(f.root)
	}
}

func (f *Forgetful) forget(n *node) {
	if !n.dir {
		if !n.flushed && f.rand.IntN(2) == 0 {
			n.data = n.data[:f.rand.IntN(len(n.data)+1)]
		}
		n.flushed = true
		return
	}
	both := maps.Clone(n.durable)
	maps.Copy(both, n.names)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if n.names[name] != n.durable[name] && f.rand.IntN(2) == 0 {
			set(n.names, name, n.durable[name])
		}
		if child := n.names[name]; child != nil {
			f.forget(child)
		}
	}
	n.durable = maps.Clone(n.names)
}

func set(names map[string]*node, name string, n *node) {
	if n == nil {
		delete(names, name)
		return
	}
	names[name] = n
}

// step counts a call that changes something or flushes.
func (f *Forgetful) step() error {
	if f.calls++; f.dead() {
		return ErrDead
	}
	return nil
}

// find returns the folder that a name is in, and the node that has the name, nil if none has.
func (f *Forgetful) find(name string) (in *node, base string, n *node, err error) {
	if name = path.Clean(name); name == "." {
		return nil, "", f.root, nil
	}
	in = f.root
	elements := strings.Split(name, "/")
	for _, e := range elements[:len(elements)-1] {
		if in = in.names[e]; in == nil || !in.dir {
			return nil, "", nil, &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
		}
	}
	base = elements[len(elements)-1]
	return in, base, in.names[base], nil
}

// existing is find for a name that must exist.
func (f *Forgetful) existing(name string) (in *node, base string, n *node, err error) {
	if f.dead() {
		return nil, "", nil, ErrDead
	}
	in, base, n, err = f.find(name)
	if err == nil && n == nil {
		err = &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
	}
	return in, base, n, err
}

// add adds a new node.
func (f *Forgetful) add(name string, n *node) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(); err != nil {
		return err
	}
	in, base, there, err := f.find(name)
	if err == nil && there != nil {
		err = &fs.PathError{Op: "make", Path: name, Err: fs.ErrExist}
	}
	if err != nil {
		return err
	}
	in.names[base] = n
	return nil
}

// Create implements [store.Files].
func (f *Forgetful) Create(name string) (store.File, error) {
	n := &node{modified: f.now()}
	return &file{f, n}, f.add(name, n)
}

// Mkdir implements [store.Files].
func (f *Forgetful) Mkdir(name string) error { return f.add(name, newFolder()) }

func (f *Forgetful) now() time.Time {
	if f.Now != nil {
		return f.Now()
	}
	return time.Now()
}

// Open implements [store.Files]. Later changes of the file are not read.
func (f *Forgetful) Open(name string) (store.OpenFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _, n, err := f.existing(name)
	if err != nil {
		return nil, err
	}
	return reading{bytes.NewReader(slices.Clone(n.data))}, nil
}

// A reading is a file that is being read.
type reading struct{ *bytes.Reader }

func (r reading) Close() error { return nil }

// Stat implements [store.Files].
func (f *Forgetful) Stat(name string) (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, base, n, err := f.existing(name)
	return info{base, n}, err
}

// Rename implements [store.Files].
func (f *Forgetful) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(); err != nil {
		return err
	}
	in, base, n, err := f.existing(from)
	if err != nil {
		return err
	}
	target, name, _, err := f.find(to)
	if err != nil {
		return err
	}
	delete(in.names, base)
	target.names[name] = n
	return nil
}

// Remove implements [store.Files].
func (f *Forgetful) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(); err != nil {
		return err
	}
	in, base, n, err := f.existing(name)
	if err != nil {
		return err
	}
	if len(n.names) > 0 {
		return errors.New("folder is not empty")
	}
	delete(in.names, base)
	return nil
}

// ReadDir implements [store.Files].
func (f *Forgetful) ReadDir(name string) (entries []fs.DirEntry, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _, n, err := f.existing(name)
	if err != nil {
		return nil, err
	}
	for _, base := range slices.Sorted(maps.Keys(n.names)) {
		entries = append(entries, fs.FileInfoToDirEntry(info{base, n.names[base]}))
	}
	return entries, nil
}

// SyncDir implements [store.Files].
func (f *Forgetful) SyncDir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step(); err != nil {
		return err
	}
	_, _, n, err := f.existing(name)
	if err == nil {
		n.durable = maps.Clone(n.names)
	}
	return err
}

// Free implements [store.Files].
func (f *Forgetful) Free() (int64, error) { return f.Space, nil }

// A file is a file that is being written.
type file struct {
	fs *Forgetful
	n  *node
}

func (o *file) Write(p []byte) (int, error) {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	if err := o.fs.step(); err != nil {
		return 0, err
	}
	o.n.data, o.n.flushed = append(o.n.data, p...), false
	return len(p), nil
}

func (o *file) Sync() error {
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	err := o.fs.step()
	o.n.flushed = o.n.flushed || err == nil
	return err
}

func (o *file) Close() error { return nil }

// An info describes a node.
type info struct {
	name string
	n    *node
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return int64(len(i.n.data)) }
func (i info) ModTime() time.Time { return i.n.modified }
func (i info) IsDir() bool        { return i.n.dir }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.n.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
