package vital

import "fmt"

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
		return fmt.Errorf("%w: %d bytes; %d are possible in %v with Config.MaxPacket = %d",
			ErrChunkSize, len(data), c.cfg.maxChunk(), c.cfg.Version, c.cfg.MaxPacket)
	}
	flags &= Vital
	var s span
	var err error
	if flags == Vital {
		s, err = c.storeChunk(data)
	} else {
		s, err = c.queueChunk(data)
	}
	if err != nil {
		return err
	}
	c.extend(flags, len(data))
	last := c.queue.Push(firstPlaces)
	*last = queuedChunk{span: s, flags: flags}
	return nil
}

// storeChunk adds a vital chunk to the store, where it stays until it is acknowledged.
func (c *Conn) storeChunk(data []byte) (span, error) {
	if c.store.Len() >= maxOutstanding {
		return span{}, fmt.Errorf("%w: %d vital chunks are not acknowledged", ErrStoreFull, c.store.Len())
	}
	s, ok := c.storeData.put(data)
	if !ok {
		return span{}, fmt.Errorf("%w: %d bytes in %d vital chunks are not acknowledged, "+
			"and %d more exceed Config.StoreBytes = %d",
			ErrStoreFull, c.storeData.used, c.store.Len(), len(data), c.cfg.StoreBytes)
	}
	last := c.store.Push(firstPlaces)
	*last = unackedChunk{span: s}
	return s, nil
}

// queueChunk adds the data of a chunk that is not vital to queueData.
func (c *Conn) queueChunk(data []byte) (span, error) {
	if c.queue.Len() >= c.cfg.QueueBytes/chunkShare {
		return span{}, fmt.Errorf("%w: %d chunks wait, which Config.QueueBytes = %d allows",
			ErrQueueFull, c.queue.Len(), c.cfg.QueueBytes)
	}
	s, ok := c.queueData.put(data)
	if !ok {
		return span{}, fmt.Errorf("%w: %d bytes wait, and %d more exceed Config.QueueBytes = %d",
			ErrQueueFull, c.queueData.used, len(data), c.cfg.QueueBytes)
	}
	return s, nil
}

// extend adds a new chunk to the packet at the end of the queue. If the packet has no room for it,
// the chunks queued so far are due and the chunk begins a packet of its own.
func (c *Conn) extend(flags Flags, size int) {
	if c.queue.Len() == 0 {
		c.tail = tail{}
	}
	full := c.tail.bytes+size+c.cfg.reserve() > c.cfg.payload(c.cfg.MaxPacket)
	if full || c.tail.chunks >= maxChunks {
		c.due = c.queue.Len()
		c.tail = tail{}
	}
	c.tail.bytes += 2 + int(flags&Vital) + size
	c.tail.chunks++
}

// Flush makes all queued chunks due. The next calls of AppendPacket send them.
func (c *Conn) Flush() { c.due = c.queue.Len() }

// Close makes the next packet close the connection, which ends when AppendPacket returns that
// packet. reason is cut to 256 bytes, and the peer sees it up to its first zero byte.
func (c *Conn) Close(reason string) {
	if c.err == nil && c.closing == nil {
		c.closing = &CloseError{Reason: reason[:min(len(reason), maxReason)]}
	}
}
