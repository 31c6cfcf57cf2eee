package store

import (
	"path"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A batch is the puts that arrived while the batch before was made durable, and
// that are made durable together.
type batch struct {
	folder string // the folder of its first object
	keys   map[string]bool
	files  map[string]*building // by folder
	bytes  int
	adding sync.WaitGroup // puts whose objects are being written

	ready chan struct{} // closed, once, when the batch should not wait for more
	once  sync.Once
	done  chan struct{} // closed when the result of each put is known
}

const (
	// enough is how many bytes a batch waits for at most; more may join until it is
	// committed. A file costs 0.6 ms of a processor, on ext4, and its two flushes wait
	// 2 to 4 ms. That is little beside the 15 ms in which so many bytes arrive at best.
	enough = 8 << 20
	// gatherTime is how long a batch waits if the one before had several
	// objects of the same folder.
	gatherTime = 15 * time.Millisecond
)

// gather waits a short time for more objects of one folder. An object of
// another folder is usually a record, and somebody waits for it.
func (b *batch) gather() {
	select {
	case <-b.ready:
	case <-time.After(gatherTime):
	}
}

// crowd returns the folder of the objects if there are several and all are in
// one folder, otherwise "".
func (b *batch) crowd() string {
	if len(b.keys) < 2 || len(b.files) > 1 {
		return ""
	}
	return b.folder
}

// add adds an object that will be written, and returns the file that it is to be written to.
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

// filesAtOnce is how many files of a batch are made durable at once: a file
// system flushes some of them together.
const filesAtOnce = 64

// each calls fn with the file of each folder, once all of its objects are
// written, and records the result for these objects.
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
	committed *batch // the batch that is being made durable; nil = none is
}

// join adds an object to the next batch, and returns the file of that batch
// that it is to be written to. in is nil if a batch that is not done has an
// object of that key. If first is true the caller must commit the batch.
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

// leave removes an object from a batch that it has joined. A batch without
// objects then waits for nobody.
func (q *queue) leave(b *batch, key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if delete(b.keys, key); len(b.keys) == 0 {
		b.stopGathering()
	}
}

// commits makes puts from now on join the batch after b. b = nil means that the
// results of the last batch are known.
func (q *queue) commits(b *batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.committed = b; b != nil {
		q.next = nil
	}
}
