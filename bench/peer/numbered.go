package peer

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
)

// A Numbered matches answers, which may arrive in any order, with calls. It replaces the first 8
// bytes of an argument by the number of the call, which the answer repeats. Its methods are safe
// for concurrent use. The zero Numbered has no calls.
type Numbered struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan error // by the number of the call; capacity 1
}

// Call calls send with a numbered copy of the argument, and returns when
// Answered has received its answer.
func (n *Numbered) Call(ctx context.Context, argument []byte, send func(message []byte) error) error {
	done := make(chan error, 1)
	message := slices.Clone(argument)
	n.mu.Lock()
	if n.waiting == nil {
		n.waiting = make(map[uint64]chan error)
	}
	n.last++
	binary.LittleEndian.PutUint64(message, n.last)
	n.waiting[n.last] = done
	n.mu.Unlock()
	if err := send(message); err != nil {
		return err
	}
	return await(ctx, done)
}

// Answered ends the call whose number is in the message. Other messages are ignored.
func (n *Numbered) Answered(message []byte, err error) {
	number := binary.LittleEndian.Uint64(message)
	n.mu.Lock()
	done := n.waiting[number]
	delete(n.waiting, number)
	n.mu.Unlock()
	if done != nil {
		done <- err
	}
}
