package store

import (
	"path"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// batch is the puts that came while the one before was made durable, and are made so together.
type batch struct {
	folder string // of its first object
	keys   map[string]bool
	files  map[string]*building // by folder
	bytes  int
	adding sync.WaitGroup // those whose objects are being written

	ready chan struct{} // closed, once, when it is not to wait for more
	once  sync.Once
	done  chan struct{} // closed when it is known what became of each
}

const (
	// enough is for how many bytes a batch waits at most. More may join until it is committed. A file costs 0.6 ms of a processor, on ext4, and its
	// two flushes wait 2 to 4 ms: little beside the 15 ms that so much takes to come at best.
	enough = 8 << 20
	// gatherTime is how long it waits, where the one before had several of the same folder.
	gatherTime = 15 * time.Millisecond
)

// gather waits for more objects of one folder, not for long. What goes to another one is a record, most often, for which somebody waits.
func (b *batch) gather() {
	select {
	case <-b.ready:
	case <-time.After(gatherTime):
	}
}

// crowd returns the folder of the objects, if there are several and all are of one, or else nothing.
func (b *batch) crowd() string {
	if len(b.keys) < 2 || len(b.files) > 1 {
		return ""
	}
	return b.folder
}

// add adds an object to come, and returns in which file it goes.
func (b *batch) add(key string, size int, build func() *building) *building {
	folder := path.Dir(key)
	b.keys[key] = true
	if b.files[folder] == nil {
		b.files[folder] = build()
	}
	b.adding.Add(1)
	if b.bytes += size; b.bytes >= enough || len(b.files) > 1 {
		b.stopGathering()
	}
	return b.files[folder]
}

func (b *batch) stopGathering() { b.once.Do(func() { close(b.ready) }) }

// filesAtOnce is how many files of a batch are made durable at once: a file system flushes some of them together.
const filesAtOnce = 64

// each calls fn with the file of each folder, once all of its objects are written, and notes for them what it returns.
func (b *batch) each(fn func(folder string, in *building) error) {
	b.adding.Wait()
	var files errgroup.Group
	files.SetLimit(filesAtOnce)
	for folder, in := range b.files {
		files.Go(func() error {
			in.err = fn(folder, in)
			return nil
		})
	}
	_ = files.Wait() // each has its error
}

// queue gathers the next batch. It is safe for concurrent use.
type queue struct {
	build func() *building // makes a file

	mu        sync.Mutex
	next      *batch // nil: nothing waits
	committed *batch // nil: none is made durable
}

// join adds an object to the next batch, and returns in which file of that it goes; none where a batch that is not done has one of its key.
// Whoever is the first in it has to commit it.
func (q *queue) join(key string, size int) (b *batch, in *building, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range []*batch{q.committed, q.next} {
		if b != nil && b.keys[key] {
			return b, nil, false
		}
	}
	if first = q.next == nil; first {
		q.next = &batch{
			folder: path.Dir(key), keys: make(map[string]bool), files: make(map[string]*building),
			ready: make(chan struct{}), done: make(chan struct{}),
		}
	}
	return q.next, q.next.add(key, size, q.build), first
}

// leave takes an object out of a batch that it has joined. One that holds nothing then waits for nobody.
func (q *queue) leave(b *batch, key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if delete(b.keys, key); len(b.keys) == 0 {
		b.stopGathering()
	}
}

// commits has who comes now join the batch after b. With nil it says that what became of the last one is known.
func (q *queue) commits(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.committed = b; b != nil {
		q.next = nil
	}
}
