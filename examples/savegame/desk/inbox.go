package desk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quivernet/quiver/stream"
)

// maxTalks bounds what waits in an inbox: a job waits for one at a time.
const maxTalks = 4 * maxJobs

// inbox is where streams wait for those who hear them, and those for their streams. It is safe for concurrent use.
type inbox struct {
	mu    sync.Mutex
	boxes map[number]chan *stream.IncomingBlob // of one
}

// box returns where a stream and who hears it meet, nil where there are too many such places.
func (b *inbox) box(n number) chan *stream.IncomingBlob {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.boxes == nil {
		b.boxes = make(map[number]chan *stream.IncomingBlob)
	}
	if b.boxes[n] == nil && len(b.boxes) < maxTalks {
		b.boxes[n] = make(chan *stream.IncomingBlob, 1)
	}
	return b.boxes[n]
}

func (b *inbox) remove(n number) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.boxes, n)
}

// deliver hands a stream over, in the handler. One that nobody takes costs no more than the window that it has until it fails.
func (b *inbox) deliver(in *stream.IncomingBlob) {
	n := numberOf(in.Name())
	select {
	case b.box(n) <- in:
		in.OnEnd(func(err error) {
			if err != nil {
				b.remove(n)
			}
		})
	default:
		in.Reject(errors.New("there is one already, or too many wait"))
	}
}

// take waits for a stream. What ctx ends then ends the stream as well.
func (b *inbox) take(ctx context.Context, n number) (*stream.IncomingBlob, error) {
	box := b.box(n)
	if box == nil {
		return nil, fmt.Errorf("%w: %d streams wait already", ErrBusy, maxTalks)
	}
	defer b.remove(n)
	select {
	case in := <-box:
		context.AfterFunc(ctx, func() { in.Reject(context.Cause(ctx)) })
		return in, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
