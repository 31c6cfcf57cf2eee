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
	mu    sync.Mutex
	boxes map[string]chan *IncomingBlob // of one
}

// Deliver takes a blob in, in its handler. It rejects one whose name another has that waits, or when 64 wait. One that fails before it is
// taken is forgotten, and the next of its name takes its place.
func (i *Inbox) Deliver(in *IncomingBlob) {
	box, err := i.put(in)
	if err != nil {
		in.Reject(err)
		return
	}
	in.OnEnd(func(err error) {
		if err != nil {
			i.leave(in.Name(), box)
		}
	})
}

// Take waits for the blob of a name, which one goroutine at a time does, and not the world's. When ctx ends before all is read, the blob is
// rejected with its cause, which the sender hears. The connection's end does not end Take: ctx has to end with [rpc.Conn.Done].
func (i *Inbox) Take(ctx context.Context, name string) (*IncomingBlob, error) {
	box := i.wait(name)
	select {
	case in := <-box:
		i.leave(name, box)
		context.AfterFunc(ctx, func() { in.Reject(context.Cause(ctx)) })
		return in, nil
	case <-ctx.Done():
		if in := i.leave(name, box); in != nil { // it came at the same time
			in.Reject(context.Cause(ctx))
		}
		return nil, context.Cause(ctx)
	}
}

// put lays a blob in the box of its name.
func (i *Inbox) put(in *IncomingBlob) (box chan *IncomingBlob, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if box = i.boxes[in.Name()]; box == nil {
		if len(i.boxes) >= inboxLimit {
			return nil, fmt.Errorf("%d blobs wait to be taken, which is the limit", inboxLimit)
		}
		box = i.open(in.Name())
	}
	select {
	case box <- in:
		return box, nil
	default:
		return nil, errors.New("one of this name waits to be taken already")
	}
}

// wait returns the box in which the blob of a name will be.
func (i *Inbox) wait(name string) chan *IncomingBlob {
	i.mu.Lock()
	defer i.mu.Unlock()
	if box := i.boxes[name]; box != nil {
		return box
	}
	return i.open(name)
}

// open makes a box; its caller holds the lock.
func (i *Inbox) open(name string) chan *IncomingBlob {
	if i.boxes == nil {
		i.boxes = make(map[string]chan *IncomingBlob)
	}
	i.boxes[name] = make(chan *IncomingBlob, 1)
	return i.boxes[name]
}

// leave removes a box, and returns the blob that is in it. Another one of its name stays.
func (i *Inbox) leave(name string, box chan *IncomingBlob) (in *IncomingBlob) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.boxes[name] == box {
		delete(i.boxes, name)
	}
	select {
	case in = <-box:
	default:
	}
	return in
}
