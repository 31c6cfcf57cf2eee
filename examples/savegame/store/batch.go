package store

import (
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// newObject is an object that is being put.
type newObject struct {
	key  string
	data []byte
	err  error // why it was not put; written before its batch is done
}

// batch is the puts that came while the one before was made durable, and are made so together.
type batch struct {
	objects []*newObject
	ready   chan struct{} // closed, once, when it is not to wait for more
	once    sync.Once
	done    chan struct{} // closed when it is known what became of each
}

const (
	// enough is for how many objects a batch waits at most: of chunks, 2 MB. More may join until it is put.
	enough = 12
	// gatherTime is how long it waits, where the one before had several of the same folder. At 300 MB/s 3 MB come meanwhile.
	gatherTime = 10 * time.Millisecond
)

// gather waits for more objects of one folder, not for long. What goes to another one is a record, most often, for which somebody waits.
func (b *batch) gather() {
	select {
	case <-b.ready:
	case <-time.After(gatherTime):
	}
}

// crowd returns the folder of the first two objects, empty where they have none in common.
func (b *batch) crowd() string {
	if len(b.objects) < 2 || path.Dir(b.objects[0].key) != path.Dir(b.objects[1].key) {
		return ""
	}
	return path.Dir(b.objects[0].key)
}

// filesAtOnce is how many files of a batch are written at once: a file system flushes some of them together.
const filesAtOnce = 64

// each calls put with the objects of each folder, and notes for them what it returns.
func (b *batch) each(put func(folder string, objects []*newObject) error) {
	folders := make(map[string][]*newObject)
	for _, o := range b.objects {
		if o.err == nil {
			folders[path.Dir(o.key)] = append(folders[path.Dir(o.key)], o)
		}
	}
	var files errgroup.Group
	files.SetLimit(filesAtOnce)
	for folder, objects := range folders {
		files.Go(func() error {
			err := put(folder, objects)
			for _, o := range objects {
				o.err = err
			}
			return nil
		})
	}
	_ = files.Wait() // each has its error
}

// queue gathers the next batch. It is safe for concurrent use.
type queue struct {
	mu   sync.Mutex
	next *batch // nil: nothing waits
}

// join adds an object to the next batch, unless that has one of its key. Whoever is the first in it has to commit it.
func (q *queue) join(o *newObject) (b *batch, first, twin bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if first = q.next == nil; first {
		q.next = &batch{ready: make(chan struct{}), done: make(chan struct{})}
	}
	b = q.next
	if slices.ContainsFunc(b.objects, func(other *newObject) bool { return other.key == o.key }) {
		return b, false, true
	}
	b.objects = append(b.objects, o)
	if len(b.objects) == enough || path.Dir(o.key) != path.Dir(b.objects[0].key) {
		b.once.Do(func() { close(b.ready) })
	}
	return b, first, false
}

// close has who comes now join the batch after that.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next = nil
}
