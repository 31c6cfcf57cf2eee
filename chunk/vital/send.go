package vital

import (
	"fmt"

	"github.com/quivernet/quiver/internal/words"
)

// Send queues a copy of data as a chunk. flags is Vital or 0.
//
// The chunk is sent once the next one does not fit into the same packet, or else by a Flush or
// Config.FlushAfter after the last packet.
//
// The error is ErrChunkSize, ErrStoreFull, ErrQueueFull, or the reason why the connection ended.
// It means that nothing will be sent and the connection is unchanged.
func (c *Conn) Send(flags Flags, data []byte) error {
	switch {
	case c.err != nil:
		return c.err
	case c.closing != nil:
		return c.closing
	case len(data) > c.cfg.maxChunk():
		return fmt.Errorf("%w: %d bytes; the limit is %d in %v with Config.MaxPacket = %d",
			ErrChunkSize, len(data), c.cfg.maxChunk(), c.cfg.Version, c.cfg.MaxPacket)
	}
	flags &= Vital
	var s span
	var err error
	if flags == Vital {
		s, err = c.store.put(data)
	} else {
		s, err = c.queue.put(data)
	}
	if err != nil {
		return err
	}
	c.extend(flags, len(data))
	c.queue.push(queuedChunk{span: s, flags: flags})
	return nil
}

// extend adds a new chunk to the packet at the end of the queue. If the packet has no room for it,
// the chunks queued so far are due and the chunk begins a packet of its own.
func (c *Conn) extend(flags Flags, size int) {
	q := &c.queue
	if q.chunks.Len() == 0 {
		q.tail = tail{}
	}
	full := q.tail.bytes+size+c.cfg.reserve() > c.cfg.payload(c.cfg.MaxPacket)
	if full || q.tail.chunks >= maxChunks {
		q.flush()
		q.tail = tail{}
	}
	q.tail.bytes += 2 + int(flags&Vital) + size
	q.tail.chunks++
}

// Flush makes all queued chunks due. The next calls of AppendPacket send them.
func (c *Conn) Flush() { c.queue.flush() }

// Close makes the next packet close the connection, which ends when AppendPacket returns that
// packet. reason is shortened to 256 bytes, and the peer sees it up to its first zero byte.
func (c *Conn) Close(reason string) {
	if c.err == nil && c.closing == nil {
		c.closing = &CloseError{Reason: shorten(reason, maxReason)}
	}
}

// shorten shortens a reason to at most limit bytes, ending it with an ellipsis. A reason that is
// short enough may contain any bytes.
func shorten(reason string, limit int) string {
	if len(reason) <= limit {
		return reason
	}
	return words.Cut(reason, limit)
}
