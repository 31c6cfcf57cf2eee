package store

import (
	"path"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A batch is a group of puts that arrived while the previous batch was made durable, and that are
// made durable together.
type batch struct {
	folder string // the folder of its first object
	keys   map[string]bool
	files  map[string]*building // by folder
	bytes  int
	adding sync.WaitGroup // puts whose objects are being written

	ready chan struct{} // closed when the batch should not wait for more puts
	once  sync.Once     // closes ready
	done  chan struct{} // closed when the result of each put is known
}

const (
	// batchBytes is how many bytes a batch waits for, although more may join until it is committed.
	// On ext4, a file costs 0.6 ms of CPU time, and its two flushes take 2 to 4 ms, which is little
	// compared with the 15 ms or more in which so many bytes arrive.
	batchBytes = 8 << 20
	// gatherTime is how long a batch waits if the previous one had several objects, all of the same
	// folder.
	gatherTime = 15 * time.Millisecond
)

// gather waits a short time for more objects of one folder. It stops when an object of another
// folder arrives, which is usually a record that a client is waiting for.
func (b *batch) gather() {
	select {
	case <-b.ready:
	case <-time.After(gatherTime):
	}
}

// crowd returns the folder of the batch's objects if there are several, all in one folder.
// Otherwise it returns "".
func (b *batch) crowd() string {
	if len(b.keys) < 2 || len(b.files) > 1 {
		return ""
	}
	return b.folder
}

// add registers an object, and returns the file to which the caller must add it.
func (b *batch) add(key string, size int, build func() *building) *building {
	folder := path.Dir(key)
	b.keys[key] = true
	if b.files[folder] == nil {
		b.files[folder] = build()
	}
	b.adding.Add(1)
	if b.bytes += size; b.bytes >= batchBytes || len(b.files) > 1 {
		b.stopGathering()
	}
	return b.files[folder]
}

func (b *batch) stopGathering() { b.once.Do(func() { close(b.ready) }) }

// filesAtOnce is how many files of a batch are made durable at once. File systems flush some of
// them together.
const filesAtOnce = 64

// each calls fn with the file of each folder after all objects have been added, and records its
// result for the objects of the file.
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
	_ = files.Wait() // each file has its own error
}

// A queue collects the next batch. It is safe for concurrent use.
type queue struct {
	build func() *building // returns a new file

	mu        sync.Mutex
	next      *batch // nil = no put waits
	committed *batch // the batch that is being made durable, or nil
}

// join registers an object with the next batch, and returns the file to which the caller must add
// it. If a batch that isn't done yet already has an object of that key, join returns that batch,
// and in is nil. If first is true, the caller must commit the batch.
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

// leave removes an object from a batch that it joined. A batch without objects stops waiting.
func (q *queue) leave(b *batch, key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if delete(b.keys, key); len(b.keys) == 0 {
		b.stopGathering()
	}
}

// setCommitted records that b is being made durable, so that further puts join the next batch. b is
// nil once that is done.
func (q *queue) setCommitted(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.committed = b; b != nil {
		q.next = nil
	}
}
