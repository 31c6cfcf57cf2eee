package vital

import "fmt"

// Send queues a copy of data as a chunk; flags is Vital or 0. The chunk is sent when the
// next one does not fit into the same packet, with Flush, or Config.FlushAfter after the
// last packet. After an error nothing is sent, and the connection is unchanged:
// ErrChunkSize, ErrStoreFull, ErrQueueFull, or the error that ended the connection.
func (c *Conn) Send(flags Flags, data []byte) error {
	switch {
	case c.err != nil:
		return c.err
	case c.closing != nil:
		return c.closing
	case len(data) > c.cfg.maxChunk():
		return fmt.Errorf("%w: %d bytes; %d are possible in %v with Config.MaxPacket = %d", ErrChunkSize, len(data), c.cfg.maxChunk(), c.cfg.Version, c.cfg.MaxPacket)
	}
	flags &= Vital
	put := c.queueChunk
	if flags == Vital {
		put = c.storeChunk
	}
	s, err := put(data)
	if err != nil {
		return err
	}
	c.extend(flags, len(data))
	*c.queue.Push(firstPlaces) = item{span: s, flags: flags}
	return nil
}

// storeChunk puts the data of a vital chunk into the store.
func (c *Conn) storeChunk(data []byte) (span, error) {
	if c.store.Len() >= maxOutstanding {
		return span{}, fmt.Errorf("%w: %d vital chunks are not acknowledged", ErrStoreFull, c.store.Len())
	}
	s, ok := c.kept.put(data)
	if !ok {
		return span{}, fmt.Errorf("%w: %d bytes in %d vital chunks are not acknowledged, and %d more exceed Config.StoreBytes = %d",
			ErrStoreFull, c.kept.used, c.store.Len(), len(data), c.cfg.StoreBytes)
	}
	*c.store.Push(firstPlaces) = record{span: s}
	return s, nil
}

// queueChunk puts the data of a chunk that is not vital into pending.
func (c *Conn) queueChunk(data []byte) (span, error) {
	if c.queue.Len() >= c.cfg.QueueBytes/chunkShare {
		return span{}, fmt.Errorf("%w: %d chunks wait, which Config.QueueBytes = %d allows", ErrQueueFull, c.queue.Len(), c.cfg.QueueBytes)
	}
	s, ok := c.pending.put(data)
	if !ok {
		return span{}, fmt.Errorf("%w: %d bytes wait, and %d more exceed Config.QueueBytes = %d", ErrQueueFull, c.pending.used, len(data), c.cfg.QueueBytes)
	}
	return s, nil
}

// extend adds a new chunk to the size of the packet at the queue's end. If it
// does not fit, everything before it is due.
func (c *Conn) extend(flags Flags, size int) {
	if c.queue.Len() == 0 {
		c.tail = tail{}
	}
	if c.tail.bytes+size+c.cfg.reserve() > c.cfg.payload(c.cfg.MaxPacket) || c.tail.chunks >= maxChunks {
		c.due, c.tail = c.queue.Len(), tail{}
	}
	c.tail.bytes += 2 + int(flags&Vital) + size
	c.tail.chunks++
}

// Flush makes all queued chunks due now.
func (c *Conn) Flush() { c.due = c.queue.Len() }

// Close makes the next packet close the connection, which has then ended.
// reason is cut to 256 bytes, and ends at its first zero byte.
func (c *Conn) Close(reason string) {
	if c.err == nil && c.closing == nil {
		c.closing = &CloseError{Reason: reason[:min(len(reason), maxReason)]}
	}
}
