package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/quivernet/quiver/bunch"
)

// sendFailed names a failed call and, when its buffer is full, what fills it; a connection that the machine gave up is
// closed with that. It is called under the link's lock.
func (a *Actor) sendFailed(to *opening, m *method, size int, err error) error {
	var fatal *bunch.Error
	switch {
	case errors.Is(err, bunch.ErrBunchTooLarge):
		return fmt.Errorf("rpc: %v: %d bytes encoded, the limit is Config.Bunch.MaxBunch, %d: %w",
			m, size, to.conn.maxBunch, err)
	case errors.Is(err, bunch.ErrReliableBufferFull):
		return fmt.Errorf("rpc: %v: %s: %w", m, a.fullText(to, size), err)
	case !errors.As(err, &fatal):
		return fmt.Errorf("rpc: %v to %v: %w", m, to.conn, err)
	}
	reason := fatal.Reason
	if fatal.Code == bunch.ReliableBufferOverflow {
		reason = a.fullText(to, size)
	}
	cause := &CloseError{Code: Code(fatal.Code), Reason: fmt.Sprintf("%v: %s", m, reason), cause: err}
	to.conn.abort(cause)
	return cause
}

// tellFailed logs a call that closed its connection.
func (c *Conn) tellFailed(err error) {
	var cause *CloseError
	if errors.As(err, &cause) {
		c.world.log.Error("connection closed by a call", "conn", c, "code", cause.Code.String(), "reason", cause.Reason)
	}
}

// fullText says what fills a channel's reliable buffer. UE prints the same list on ReliableBufferOverflow.
func (a *Actor) fullText(to *opening, size int) string {
	machine := to.conn.machine
	out, slots := machine.Reliable(to.channel)
	return fmt.Sprintf("%d bytes need %d entries, %d of %d (Config.Bunch.ReliableBuffer) are taken: %s",
		size, bunch.Entries(size), out, slots, a.holders(to))
}

// holder is one method's share of a reliable buffer.
type holder struct {
	name           string
	calls, entries int
}

// maxHolders bounds the list, and with it the close reason.
const maxHolders = 5

// holders lists the calls that wait for their acks, in the order in which each first appears.
func (a *Actor) holders(to *opening) string {
	var list []holder
	total := 0
	to.conn.machine.Held(to.channel, func([]byte, int) { total++ })
	opening := total == to.reliable && a.world.IsServer() // nothing is acked yet, not even the open message
	to.conn.machine.Held(to.channel, func(head []byte, entries int) {
		name := a.nameOf(head)
		if opening {
			name, opening = "open "+a.class.name, false
		}
		list = addHolder(list, name, entries)
	})
	var text strings.Builder
	for i, h := range list[:min(len(list), maxHolders)] {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "%d × %s (%d entries)", h.calls, h.name, h.entries)
	}
	if more := len(list) - maxHolders; more > 0 {
		fmt.Fprintf(&text, " and %d other methods", more)
	}
	return text.String()
}

func addHolder(list []holder, name string, entries int) []holder {
	for i := range list {
		if list[i].name == name {
			list[i].calls++
			list[i].entries += entries
			return list
		}
	}
	return append(list, holder{name, 1, entries})
}

// nameOf names the call that begins with head.
func (a *Actor) nameOf(head []byte) string {
	id, n := binary.Uvarint(head)
	switch {
	case n > 0 && id == ownerMethod:
		return ownerMessage.String()
	case n > 0 && id == stateMethod:
		return stateMessage.String()
	case n > 0 && id < uint64(len(a.class.methods)):
		return a.class.methods[id].String()
	}
	return "unknown"
}
