// Package outbox holds what a server keeps for each client in addition to the fields that the
// client lacks: the number of state bytes that it may send in a Flush, and the calls that wait for
// an actor's next update. It uses no clock, goroutine or lock.
package outbox

import (
	"encoding/binary"
	"slices"
)

// maxCalls limits the bytes of one client's calls that wait for the states of an actor. It is
// about seven packets.
const maxCalls = 8 << 10

// Calls is a queue of encoded calls that wait for the next update of an actor. Each call is
// preceded by its length. The zero Calls is empty.
type Calls struct {
	queued []byte
	backed int // bytes at the front that Back has returned since the last Cut
}

// Empty reports whether there are no calls.
func (c *Calls) Empty() bool { return len(c.queued) == 0 }

// Add appends a call. If the queue would then exceed maxCalls bytes, Add does nothing and returns
// false.
func (c *Calls) Add(call []byte) bool {
	if len(c.queued)+len(call) > maxCalls {
		return false
	}
	c.queued = append(binary.AppendUvarint(c.queued, uint64(len(call))), call...)
	return true
}

// Cut removes as many calls from the front as fit into limit bytes, and appends them to into.
func (c *Calls) Cut(into []byte, limit int) []byte {
	n := 0
	for n < len(c.queued) {
		size, head := binary.Uvarint(c.queued[n:])
		if n+head+int(size) > limit {
			break
		}
		n += head + int(size)
	}
	into = append(into, c.queued[:n]...)
	c.queued = append(c.queued[:0], c.queued[n:]...)
	c.backed = 0
	return into
}

// Back puts calls that were cut but not sent back at the front of the queue, after those that
// Back has put there since the last Cut.
func (c *Calls) Back(calls []byte) {
	c.queued = slices.Insert(c.queued, c.backed, calls...)
	c.backed += len(calls)
}

// Close removes all calls and returns their number.
func (c *Calls) Close() (n int) {
	n = Count(c.queued)
	*c = Calls{}
	return n
}

// Count returns the number of calls in what Cut has appended.
func Count(calls []byte) (n int) {
	for len(calls) > 0 {
		size, head := binary.Uvarint(calls)
		calls = calls[head+int(size):]
		n++
	}
	return n
}
