package trace

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/bell"
)

const (
	// bufferEvents is the maximum number of events that wait to be written, 3 MB. A busy
	// server with a hundred clients has 30,000 events a second, so a disk may stall for a
	// second.
	bufferEvents = 32_768
	// gatherTime is how long the writer waits for more events before it writes. A write for
	// each event would cost more than everything else.
	gatherTime = 100 * time.Millisecond
	// writeBytes is the approximate size of one write.
	writeBytes = 64 << 10
)

// A Writer writes events to a file in Perfetto's format on a separate goroutine. Its methods
// may be called concurrently. A nil Writer returns nil Taps, and its Close returns nil.
type Writer struct {
	out    io.Writer
	name   func() string
	failed func(error) // called on the writer's goroutine with the error that ended it
	began  time.Time
	wall   int64 // began in ns since 1970

	events  chan Event    // events that wait to be written
	lost    atomic.Uint64 // events dropped because the buffer was full, not yet recorded by the writer
	hurry   bell.Bell     // ends the writer's wait when the buffer is half full or the Writer is closed
	running atomic.Bool   // the goroutine was started or must not be started any more
	closed  atomic.Bool
	done    chan struct{} // closed when the goroutine has ended
	err     error         // error of a failed Write; unchanged after done is closed
}

// NewWriter returns a Writer to out. Its goroutine starts with the first event and then calls
// name for the title of the trace. NewWriter returns nil if out is nil.
func NewWriter(out io.Writer, name func() string, failed func(error)) *Writer {
	if out == nil {
		return nil
	}
	now := time.Now()
	return &Writer{
		out: out, name: name, failed: failed, began: now, wall: now.UnixNano(),
		events: make(chan Event, bufferEvents), hurry: bell.New(), done: make(chan struct{}),
	}
}

// Time converts a time to the At of an Event: ns since 1970, by the monotonic clock.
func (w *Writer) Time(at time.Time) int64 { return w.wall + int64(at.Sub(w.began)) }

// Add queues an event. If the buffer is full, it counts the event as lost. It never waits for
// out.
func (w *Writer) Add(e *Event) {
	if w.closed.Load() {
		return
	}
	select {
	case w.events <- *e:
	default:
		w.lost.Add(1)
	}
	if !w.running.Load() && !w.running.Swap(true) {
		go w.run()
	}
	if len(w.events) >= bufferEvents/2 {
		w.hurry.Ring()
	}
}

// Close writes the queued events, ends the goroutine and returns the error of a failed Write.
// If ctx ends first, it returns the cause of ctx. The goroutine still writes the rest as soon
// as out accepts it.
func (w *Writer) Close(ctx context.Context) error {
	if w == nil {
		return nil
	}
	w.closed.Store(true)
	if !w.running.Swap(true) {
		close(w.done)
	}
	w.hurry.Ring()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return fmt.Errorf("the trace is still being written: %w", context.Cause(ctx))
	}
}

// run runs on the writer's goroutine. It writes until the Writer is closed or out fails.
func (w *Writer) run() {
	defer close(w.done)
	e := newEncoder(w.name())
	if !w.write(e.header()) {
		return
	}
	gather := time.NewTimer(gatherTime)
	defer gather.Stop()
	var ev Event
	for {
		select {
		case ev = <-w.events:
			e.take(&ev)
			gather.Reset(gatherTime)
			select {
			case <-gather.C:
			case <-w.hurry:
			}
		case <-w.hurry:
		}
		closed := w.closed.Load()
		for range len(w.events) {
			ev = <-w.events
			e.take(&ev)
			if len(e.out) >= writeBytes && !w.write(e.flush()) {
				return
			}
		}
		if lost := w.lost.Swap(0); lost > 0 {
			e.gap(lost)
		}
		if !w.write(e.flush()) {
			return
		}
		if closed {
			w.write(e.finish())
			return
		}
	}
}

// write passes bytes to out. After an error it closes the Writer and returns false.
func (w *Writer) write(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if _, w.err = w.out.Write(b); w.err == nil {
		return true
	}
	w.closed.Store(true)
	w.failed(w.err)
	return false
}
