package slices

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// Datagram is the size in bytes of the smallest datagram to which QUIC falls back. A
	// slice is cut once and must fit every later path.
	Datagram = 1163
	// Size is the number of content bytes in a datagram. It is the same on all carriers,
	// because chunks move between them.
	Size = Datagram - 1 - chunk.Overhead
	// Pipeline is the maximum number of chunks in flight. A chunk is a part of about 32 KiB,
	// so this is 32 MiB. Credit usually allows less.
	//
	// A chunk that has lost a slice stays in flight until that slice has arrived. At 100
	// Mbit/s, 200 ms and 5 % loss, the chunks of three round trips stay in flight.
	Pipeline = 1024
	// Places is the initial number of chunk records in a receiver. The receiver reserves
	// memory for what this many chunks take beyond their content, but not for more.
	Places = 256
	// PartSlices is the number of slices of a full part of a transfer, including its header.
	PartSlices = 28

	// leastChunks is the initial number of chunk records in an outbox.
	leastChunks = 16

	// ownResend is the resend delay of the chunk.Sender. It is long enough that control or
	// the carrier detects losses first.
	ownResend = 10 * time.Second
)

// config is the configuration of chunk.Sender and chunk.Receiver.
var config = chunk.Config{
	SliceSize: Size, Pipeline: Pipeline, SendQueue: -1, ReceiveQueue: Places,
	Rate: -1, ResendDelay: ownResend, AckDelay: -1,
}

// A Block is the memory of a message.
type Block interface{ Free() }

// An outbox cuts messages into slices and holds the state of each slice. The machine calls
// next when the path can take a slice, lose when a slice is lost, and news and acknowledge
// when an ack arrives.
type outbox struct {
	sender *chunk.Sender            // nil before the first message
	chunks recovery.Ring[sentChunk] // chunks with unacked slices, by number
	held   int                      // message bytes in chunks
	unsent int                      // message bytes in chunks that were never sent
	resent uint64                   // slices sent again

	epoch  time.Time // start of the flight's clock, set by the first call of since
	flight flight
}

// A sentChunk is a message and the state of its slices.
type sentChunk struct {
	id      uint16
	message []byte
	block   Block
	acked   chunk.Bits
	givenUp chunk.Bits // slices that control ever declared lost; the peer may still have them
	newest  []uint64   // number of each slice's newest sending, plus one; 0 = not sent
}

// begin makes c the record of a message.
func (c *sentChunk) begin(id uint16, message []byte, b Block) {
	count := sliceCount(message)
	*c = sentChunk{id: id, message: message, block: b, newest: slices.Grow(c.newest[:0], count)[:count]}
	clear(c.newest)
}

// end frees the message.
func (c *sentChunk) end() {
	c.block.Free()
	c.block, c.message = nil, nil
}

// sliceCount returns the number of slices of a message.
func sliceCount(message []byte) int { return (len(message) + Size - 1) / Size }

// full reports whether another message must wait until chunks in flight are acked.
//
// Beyond Places, the chunks in flight must average at least half a full part. The receiver
// reserves no memory for what more small chunks would take beyond their content.
func (o *outbox) full() bool {
	count := o.chunks.Len()
	return count == Pipeline || count >= Places && o.held < count*PartSlices*Size/2
}

// idle reports whether all slices are acked.
func (o *outbox) idle() bool { return o.chunks.Len() == 0 }

// since converts a time to the flight's clock.
func (o *outbox) since(now time.Time) time.Duration {
	if o.epoch.IsZero() {
		o.epoch = now
	}
	return now.Sub(o.epoch)
}

// time converts a time of the flight's clock to the caller's.
func (o *outbox) time(t time.Duration) time.Time { return o.epoch.Add(t) }

// chunk returns the record of the chunk with the given number. An ID also works, because it
// is the low bits of the number. If there is no such chunk, the record belongs to another
// one.
func (o *outbox) chunk(number uint64) *sentChunk { return o.chunks.At(number) }

// send queues a message. Its block is freed once the message is acked completely.
func (o *outbox) send(message []byte, b Block) error {
	if o.sender == nil {
		sender, err := chunk.NewSender(config)
		if err != nil {
			return err
		}
		o.sender = sender
		o.sender.SetRTT(ownResend)
	}
	number, err := o.sender.Send(message)
	if err != nil {
		return err
	}
	o.chunks.Push(leastChunks).begin(uint16(number), message, b)
	o.held += len(message)
	o.unsent += len(message)
	return nil
}

// next returns the next slice to send and the number of its sending. Lost slices go first. An
// earlier sending of the slice that is still in flight counts as lost.
func (o *outbox) next(now time.Time) (slice chunk.Slice, number uint64, ok bool) {
	if o.idle() {
		return chunk.Slice{}, 0, false
	}
	slice, ok = o.sender.NextSlice(now)
	if !ok {
		return chunk.Slice{}, 0, false
	}
	newest := &o.chunk(uint64(slice.ChunkID)).newest[slice.Index]
	again := *newest != 0
	if again {
		o.resent++
		o.settle(*newest-1, lost)
	} else {
		o.unsent -= len(slice.Data)
	}
	number = o.flight.launch(sending{
		at: o.since(now), size: uint16(len(slice.Data) + 1 + chunk.Overhead),
		id: slice.ChunkID, index: uint8(slice.Index), again: again,
	})
	*newest = number + 1
	return slice, number, true
}

// settle decides the fate of a sending in flight and returns the sending. It returns nil if
// the sending is not in flight.
func (o *outbox) settle(number uint64, f fate) *sending {
	s := o.flight.get(number)
	if s == nil || s.fate != flying {
		return nil
	}
	o.flight.land(s, f)
	return s
}

// lose records that a sending did not arrive or was not sent. Its slice will be sent again.
func (o *outbox) lose(number uint64) {
	if s := o.settle(number, lost); s != nil {
		o.sender.Lost(s.id, int(s.index), o.time(s.at))
	}
}

// arrive records that a sending has arrived. Only an ack shows whether the peer kept its
// slice.
func (o *outbox) arrive(number uint64) { o.settle(number, landed) }

// resendAll queues all unacked slices again.
func (o *outbox) resendAll() {
	o.sender.Restart()
	o.sender.SetRTT(ownResend)
}

// news returns the chunk of an ack and the slices that the ack acknowledges for the first
// time. It returns nil if there is no such chunk, and ignores acks of slices that were never
// sent.
func (o *outbox) news(a *chunk.Ack) (c *sentChunk, fresh chunk.Bits) {
	if o.idle() {
		return nil, fresh
	}
	c = o.chunk(uint64(a.ChunkID))
	if c.block == nil || c.id != a.ChunkID || len(c.newest) != a.Count {
		return nil, fresh
	}
	for i, newest := range c.newest {
		if newest != 0 && a.Acked.Has(i) && !c.acked.Has(i) {
			fresh.Set(i)
		}
	}
	return c, fresh
}

// acknowledge records that the slices in fresh are acked. It frees messages that are acked
// completely, in order.
func (o *outbox) acknowledge(now time.Time, c *sentChunk, fresh *chunk.Bits) {
	for i, newest := range c.newest {
		if !fresh.Has(i) {
			continue
		}
		c.acked.Set(i)
		if s := o.flight.get(newest - 1); s != nil {
			o.flight.land(s, landed)
		}
	}
	o.sender.Acknowledge(now, chunk.Ack{ChunkID: c.id, Count: len(c.newest), Acked: c.acked})
	for ; o.chunks.Oldest < o.sender.Finished(); o.chunks.Oldest++ {
		c := o.chunk(o.chunks.Oldest)
		o.held -= len(c.message)
		c.end()
	}
}

// underWay returns how many slices of a chunk are in flight.
func (o *outbox) underWay(c *sentChunk) (n int) {
	for _, newest := range c.newest {
		if s := o.flight.get(newest - 1); newest != 0 && s != nil && s.fate == flying {
			n++
		}
	}
	return n
}

// trim frees spare memory, if all slices are acked.
func (o *outbox) trim() {
	if o.sender != nil && o.idle() {
		o.sender.Trim()
		o.flight.Trim()
		o.chunks.Trim()
	}
}
