package vital

import (
	"fmt"

	"github.com/quivernet/quiver/internal/recovery"
)

// A queue holds the chunks that have never been sent, in order.
type queue struct {
	chunks recovery.Ring[queuedChunk]
	data   ring // data of those that aren't vital
	due    int  // chunks at the head to send right away
	tail   tail
}

// A queuedChunk is a chunk waiting to be sent for the first time, or waiting for Next. If it's
// vital and waiting to be sent, it shares its data with an unackedChunk.
type queuedChunk struct {
	span
	flags    Flags
	sequence int // only set in the inbox
}

// A tail is the size so far of the packet that the newest chunks in the queue will go into. When
// that packet is full, Send makes its chunks due.
type tail struct {
	bytes, chunks int
}

// put stores the data of a chunk that is not vital.
func (q *queue) put(data []byte) (span, error) {
	if q.chunks.Len() >= q.data.limit/chunkShare {
		return span{}, fmt.Errorf("%w: %d chunks wait, which Config.QueueBytes = %d allows",
			ErrQueueFull, q.chunks.Len(), q.data.limit)
	}
	at, ok := q.data.put(data)
	if !ok {
		return span{}, fmt.Errorf("%w: %d bytes wait, and %d more exceed Config.QueueBytes = %d",
			ErrQueueFull, q.data.used, len(data), q.data.limit)
	}
	return at, nil
}

// push appends a chunk whose data is stored already.
func (q *queue) push(c queuedChunk) {
	last := q.chunks.Push(firstPlaces)
	*last = c
}

// flush makes all chunks due.
func (q *queue) flush() { q.due = q.chunks.Len() }

// take removes the head. It frees the data unless the chunk is vital.
func (q *queue) take() queuedChunk {
	next := q.chunks.Take()
	q.due = max(0, q.due-1)
	if next.flags != Vital {
		q.data.free(next.span)
	}
	return next
}
