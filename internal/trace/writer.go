package trace

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// bufferEvents is how many events may wait for the writer, while as many are being written: 3 MB each. A busy server with a hundred
	// clients makes 30,000 events a second, so a disk may stall for a second.
	bufferEvents = 32_768
	// gatherTime is how long the writer waits for more events before it writes: one write for each event would cost more than everything
	// else.
	gatherTime = 100 * time.Millisecond
	// writeBytes is about how many bytes one write has.
	writeBytes = 64 << 10
)

// Writer writes events to a file in Perfetto's format, on a goroutine of its own. Its methods are safe from any goroutine. A nil Writer
// returns nil Taps, and its Close returns nil.
type Writer struct {
	out    io.Writer
	name   func() string
	failed func(error) // called on the writer's goroutine with the error that ended it
	began  time.Time
	wall   int64 // began in ns since 1970

	mu      sync.Mutex
	events  []Event // that wait for the writer's goroutine
	spare   []Event
	lost    uint64 // events dropped because the buffer was full, since the writer last noted them
	running bool
	closed  bool
	err     error

	kick chan struct{} // capacity 1: events has become non-empty, or the Writer is closed
	full chan struct{} // capacity 1: the buffer is half full, or the Writer is closed
	done chan struct{} // closed when the goroutine has ended
}

// NewWriter returns a Writer to out. Its goroutine starts with the first event and then calls name for the title of the trace. NewWriter
// returns nil when out is nil.
func NewWriter(out io.Writer, name func() string, failed func(error)) *Writer {
	if out == nil {
		return nil
	}
	now := time.Now()
	return &Writer{
		out: out, name: name, failed: failed, began: now, wall: now.UnixNano(),
		kick: make(chan struct{}, 1), full: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// Time converts a time to an Event's At: ns since 1970, by the monotonic clock.
func (w *Writer) Time(at time.Time) int64 { return w.wall + int64(at.Sub(w.began)) }

// Add queues an event, or counts it as lost when the buffer is full. It never blocks on out.
func (w *Writer) Add(e *Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch n := len(w.events); {
	case w.closed:
		return
	case n == bufferEvents:
		w.lost++
		return
	case n == 0:
		if w.events == nil {
			w.events = make([]Event, 0, bufferEvents)
		}
		if !w.running {
			w.running = true
			go w.run()
		}
		signal(w.kick)
	case n == bufferEvents/2:
		signal(w.full)
	}
	w.events = append(w.events, *e)
}

// Close writes the events that wait, ends the goroutine and returns the error of a failed Write. If ctx ends first, it returns the cause
// of ctx; the goroutine still writes the rest, once out takes it.
func (w *Writer) Close(ctx context.Context) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	w.closed = true
	running := w.running
	w.mu.Unlock()
	if !running {
		return nil
	}
	signal(w.full)
	signal(w.kick)
	select {
	case <-w.done:
	case <-ctx.Done():
		return fmt.Errorf("the trace is still being written: %w", context.Cause(ctx))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// run is the goroutine. It writes until the Writer is closed or out fails.
func (w *Writer) run() {
	defer close(w.done)
	e := newEncoder(w.name())
	if !w.write(e.header()) {
		return
	}
	gather := time.NewTimer(gatherTime)
	defer gather.Stop()
	for {
		<-w.kick
		gather.Reset(gatherTime)
		select {
		case <-gather.C:
		case <-w.full:
		}
		events, lost, closed := w.take()
		if !w.encode(e, events, lost) {
			return
		}
		if closed {
			w.write(e.finish())
			return
		}
	}
}

// take returns the events that wait and the number of those lost since the last take.
func (w *Writer) take() (events []Event, lost uint64, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, lost = w.events, w.lost
	w.events, w.lost, w.spare = w.spare, 0, nil
	return events, lost, w.closed
}

// encode writes events and the number of those lost after them, and recycles their memory. It returns false when out has failed.
func (w *Writer) encode(e *encoder, events []Event, lost uint64) bool {
	for i := range events {
		e.take(&events[i])
		if len(e.out) >= writeBytes && !w.write(e.flush()) {
			return false
		}
	}
	if lost > 0 {
		e.gap(lost)
	}
	clear(events) // names
	w.mu.Lock()
	w.spare = events[:0]
	w.mu.Unlock()
	return w.write(e.flush())
}

// write passes bytes to out. After an error it closes the Writer and returns false.
func (w *Writer) write(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	_, err := w.out.Write(b)
	if err == nil {
		return true
	}
	w.mu.Lock()
	w.err, w.closed, w.events, w.spare = err, true, nil, nil
	w.mu.Unlock()
	w.failed(err)
	return false
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
