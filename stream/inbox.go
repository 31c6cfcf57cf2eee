package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// inboxLimit is how many blobs wait in an inbox at most: each has sent no more than what a sender may before its receiver reads.
const inboxLimit = 64

// Inbox is where blobs wait for those who expect them, by [Name]: a request of the game says which one goes with it, and either may come
// first. The zero value is empty. Have one for each connection, from OnConnect to OnDisconnect: look it up on the world's goroutine, and
// take from it on another. Its methods are safe for concurrent use.
//
//	streamed.Handle(streams, func(in *stream.IncomingBlob) { inboxes[in.Conn()].Deliver(in) })
type Inbox struct {
	mu      sync.Mutex
	waiting map[string]*delivered // by name: nobody has taken these
	news    chan struct{}         // closed when the next one is delivered; nil = nobody waits for it
}

// delivered is a blob that an inbox was given. The inbox's lock guards it.
type delivered struct {
	*IncomingBlob
	ended   bool
	unwatch func() bool // ends the watch over the context of who took it; nil before that
}

// Deliver takes a blob in, in its handler. It rejects one whose name another has that waits, or when 64 wait. One that fails before it is
// taken is forgotten, and the next of its name takes its place.
func (i *Inbox) Deliver(in *IncomingBlob) {
	d := &delivered{IncomingBlob: in}
	if err := i.put(d); err != nil {
		in.Reject(err)
		return
	}
	in.OnEnd(func(err error) { i.end(d, err) })
}

// Take waits for the blob of a name, on another goroutine than the world's. When ctx ends before all is read, the blob is rejected with its
// cause, which the sender hears. The connection's end does not end Take: ctx has to end with [rpc.Conn.Done].
func (i *Inbox) Take(ctx context.Context, name string) (*IncomingBlob, error) {
	for {
		d, news := i.take(name)
		if d != nil {
			i.watch(ctx, d)
			return d.IncomingBlob, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, fmt.Errorf("stream: blob %q has not come: %w", name, context.Cause(ctx))
		}
	}
}

// put has a blob wait, and wakes all who do.
func (i *Inbox) put(d *delivered) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sweep()
	switch {
	case i.waiting[d.Name()] != nil:
		return errors.New("one of this name waits to be taken already")
	case len(i.waiting) >= inboxLimit:
		return fmt.Errorf("%d blobs wait to be taken, which is the limit", inboxLimit)
	case i.waiting == nil:
		i.waiting = make(map[string]*delivered)
	}
	i.waiting[d.Name()] = d
	if i.news != nil {
		close(i.news)
		i.news = nil
	}
	return nil
}

// sweep forgets blobs that have failed, also those of which the world's goroutine is yet to say so. The lock is held.
func (i *Inbox) sweep() {
	for name, d := range i.waiting {
		if d.Err() != nil {
			delete(i.waiting, name)
		}
	}
}

// take returns the blob of a name; nil when there is none before news is closed.
func (i *Inbox) take(name string) (d *delivered, news <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sweep()
	if d = i.waiting[name]; d != nil {
		delete(i.waiting, name)
		return d, nil
	}
	if i.news == nil {
		i.news = make(chan struct{})
	}
	return nil, i.news
}

// watch rejects a blob that was taken when ctx ends first.
func (i *Inbox) watch(ctx context.Context, d *delivered) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !d.ended {
		d.unwatch = context.AfterFunc(ctx, func() { d.Reject(context.Cause(ctx)) })
	}
}

// end lets go of a blob whose transfer has ended. One that failed, or was given up, waits no longer.
func (i *Inbox) end(d *delivered, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	d.ended = true
	if d.unwatch != nil {
		d.unwatch()
	}
	if err != nil && i.waiting[d.Name()] == d {
		delete(i.waiting, d.Name())
	}
}
