package stream

import (
	"context"
	"errors"
	"sync"
)

// inboxLimit is how many blobs wait in an inbox at most: each has sent no more than what a sender may before its receiver reads.
const inboxLimit = 64

// Inbox is where blobs wait for those who expect them, by name: a request of the game says which one goes with it, and either may come
// first. The zero value is empty. Have one for each connection; its methods are safe for concurrent use.
//
//	streamed.Handle(streams, func(in *stream.IncomingBlob) { inboxes[in.Conn()].Deliver(in) })
type Inbox struct {
	mu    sync.Mutex
	boxes map[string]chan *IncomingBlob // of one
}

// Deliver takes a blob in, in its handler. It rejects one whose name another has that waits, or when 64 wait.
func (i *Inbox) Deliver(in *IncomingBlob) {
	select {
	case i.box(in.Name(), inboxLimit) <- in:
		in.OnEnd(func(err error) {
			if err != nil {
				i.remove(in.Name())
			}
		})
	default:
		in.Reject(errors.New("one of that name waits already, or too many do"))
	}
}

// Take waits for the blob of a name, which one goroutine at a time does. When ctx ends later, the blob is rejected.
func (i *Inbox) Take(ctx context.Context, name string) (*IncomingBlob, error) {
	defer i.remove(name)
	select {
	case in := <-i.box(name, 0):
		context.AfterFunc(ctx, func() { in.Reject(context.Cause(ctx)) })
		return in, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// box returns where a blob and who takes it meet, nil where there are as many places as a limit that is not 0.
func (i *Inbox) box(name string, limit int) chan *IncomingBlob {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.boxes == nil {
		i.boxes = make(map[string]chan *IncomingBlob)
	}
	if i.boxes[name] == nil && (limit == 0 || len(i.boxes) < limit) {
		i.boxes[name] = make(chan *IncomingBlob, 1)
	}
	return i.boxes[name]
}

func (i *Inbox) remove(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.boxes, name)
}
