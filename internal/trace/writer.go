package trace

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// bufferEvents wait at most for being written, and as many are being written: 3 MB each. A busy server with a hundred clients
	// makes 30,000 a second, so that a disk may stand still for a second.
	bufferEvents = 32_768
	// gatherTime is how long events wait for others: a write for each would cost more than all else.
	gatherTime = 100 * time.Millisecond
	// writeBytes is how much is written at a time, about.
	writeBytes = 64 << 10
)

// Writer writes events. Its methods are safe from any goroutine. A nil Writer has nil Taps, and Close returns nil.
type Writer struct {
	out    io.Writer
	name   func() string
	failed func(error) // hears of the error that ended it, on the writer's goroutine
	began  time.Time
	wall   int64 // ns of began

	mu      sync.Mutex
	events  []Event // that wait
	spare   []Event
	lost    uint64 // events that found the buffer full, since they were last told
	running bool
	closed  bool
	err     error

	kick chan struct{} // capacity 1: there are events
	full chan struct{} // capacity 1: half of the buffer is taken, or it closes
	done chan struct{} // closed when nothing more is written
}

// NewWriter returns a Writer for the trace of something with a name, which is asked for when its goroutine begins, with the first
// event. It is nil without an out.
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

// Time returns what an event that happens at a time has as At: ns since 1970, counted by the clock that never runs back.
func (w *Writer) Time(at time.Time) int64 { return w.wall + int64(at.Sub(w.began)) }

// Add takes an event, or counts it when the buffer is full.
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

// Close has what waits written, and ends the goroutine. It returns the error that a Write returned, or the cause of ctx when that
// ends first: then the rest is written all the same, as soon as out takes it.
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

// run writes until the Writer is closed, or out fails.
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

// take takes what waits.
func (w *Writer) take() (events []Event, lost uint64, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, lost = w.events, w.lost
	w.events, w.lost, w.spare = w.spare, 0, nil
	return events, lost, w.closed
}

// encode writes events, and how many were lost behind them, and gives their memory back.
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

// write writes, and ends the Writer when that fails.
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
