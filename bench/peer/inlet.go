package peer

import (
	"context"
	"sync"
)

// Ear is where a server hands on the messages of a [Talker]. Its methods are safe from any goroutine.
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

// Heard hands a message on.
func (e *Ear) Heard(message []byte) {
	e.mu.Lock()
	hear := e.hear
	e.mu.Unlock()
	if hear != nil {
		hear(message)
	}
}

// Inlet is the receiving side of a peer that gets pieces of blobs and messages handed to it. Its methods are safe from any goroutine.
type Inlet struct {
	Ear

	mu   sync.Mutex
	sink *Sink // nil: no blob is expected
	done chan error
}

// Take checks a piece of the blob; those of one that was cut are dropped.
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

// Move has a blob sent in pieces of that size, and waits until it has arrived.
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
