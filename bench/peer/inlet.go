package peer

import (
	"context"
	"sync"
)

// An Ear passes on the messages that a [Talker]'s server receives. Its methods
// are safe for concurrent use.
type Ear struct {
	mu   sync.Mutex
	hear func(message []byte) // nil until Hear
}

// Hear implements Talker.
func (e *Ear) Hear(fn func(message []byte)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hear = fn
}

// Heard passes a message on.
func (e *Ear) Heard(message []byte) {
	e.mu.Lock()
	hear := e.hear
	e.mu.Unlock()
	if hear != nil {
		hear(message)
	}
}

// An Inlet is the receiving side of a peer that receives pieces of blobs and
// messages. Its methods are safe for concurrent use.
type Inlet struct {
	Ear

	mu   sync.Mutex
	sink *Sink // nil = no blob is expected
	done chan error
}

// Take checks a piece of the blob. It drops pieces of a blob that was cut.
func (i *Inlet) Take(piece []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.sink == nil {
		return
	}
	_, err := i.sink.Write(piece)
	if err != nil || i.sink.Full() {
		i.done <- err
		i.sink = nil
	}
}

// Move sends a blob in pieces of the given size, and waits until it has arrived.
func (i *Inlet) Move(ctx context.Context, blob []byte, size int, send func(piece []byte) error) error {
	done, failed := make(chan error, 1), make(chan error, 1)
	i.mu.Lock()
	i.sink, i.done = NewSink(blob), done
	i.mu.Unlock()
	go func() {
		for at := 0; at < len(blob) && ctx.Err() == nil; at += size {
			if err := send(blob[at:min(at+size, len(blob))]); err != nil {
				failed <- err
				return
			}
		}
	}()
	select {
	case err := <-done:
		return err
	case err := <-failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
