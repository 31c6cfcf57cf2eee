package slices

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// Datagram is the size in bytes of the smallest datagram to which QUIC falls back: a slice, once cut, must fit every later path.
	Datagram = 1163
	// Size is how many bytes of a datagram are content. It is the same on all carriers, because chunks move between them.
	Size = Datagram - 1 - chunk.Overhead
	// Pipeline is how many chunks may be in flight: 32 MiB, because a chunk is a part of about 32 KiB. A chunk that lost a slice stays in
	// flight until that has come: at 100 Mbit/s, 200 ms and 5 % loss, the chunks of three round trips are. Credit usually allows less.
	Pipeline = 1024
	// Places is how many chunks a receiver has records for from the start. It keeps memory for what this many, but not more, take beyond
	// their content.
	Places = 256
	// PartSlices is how many slices a full part of a transfer makes, with its header.
	PartSlices = 28

	// leastChunks is how many chunks an outbox has records for from the start.
	leastChunks = 16

	// ownResend is the sender's own resend delay: so long that control, or the carrier, finds losses first.
	ownResend = 10 * time.Second
)

// config is the configuration of chunk.Sender and chunk.Receiver.
var config = chunk.Config{
	SliceSize: Size, Pipeline: Pipeline, SendQueue: -1, ReceiveQueue: Places,
	Rate: -1, ResendDelay: ownResend, AckDelay: -1,
}

// Block is the memory that a message lies in.
type Block interface{ Free() }

// outbox cuts messages into slices and remembers the state of each. The machine calls next when the path can take a slice, lose when
// a slice is lost, and news and acknowledge when an ack has come.
type outbox struct {
	sender *chunk.Sender            // nil before the first message
	chunks recovery.Ring[sentChunk] // chunks with slices that are not acked, by number
	held   int                      // bytes of chunks
	unsent int                      // bytes of chunks that were never sent
	resent uint64                   // slices sent that had been sent before

	epoch  time.Time // of the flight's clock: the first time that since was given
	flight flight
}

// sentChunk is a message and the state of its slices.
type sentChunk struct {
	id      uint16
	message []byte
	block   Block
	acked   chunk.Bits
	givenUp chunk.Bits // slices that control gave up at some time; the peer may still have them
	newest  []uint64   // one above the newest sending of each slice; 0 = not sent
}

// begin takes a message.
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

// sliceCount returns how many slices a message makes.
func sliceCount(message []byte) int { return (len(message) + Size - 1) / Size }

// full reports whether another message must wait until chunks in flight are acked. Beyond Places, chunks in flight must on average be at
// least half a full part: the receiver keeps no memory for what more small chunks take beyond their content.
func (o *outbox) full() bool {
	count := o.chunks.Len()
	return count == Pipeline || count >= Places && o.held < count*PartSlices*Size/2
}

// idle reports whether all slices are acked.
func (o *outbox) idle() bool { return o.chunks.Len() == 0 }

// since turns a time into one of the flight's clock.
func (o *outbox) since(now time.Time) time.Duration {
	if o.epoch.IsZero() {
		o.epoch = now
	}
	return now.Sub(o.epoch)
}

// time turns a time of the flight's clock back into one of the caller's.
func (o *outbox) time(t time.Duration) time.Time { return o.epoch.Add(t) }

// chunk returns the record of the chunk with a number, or with an id, the low bits of the number. When there is no such chunk, the record
// belongs to another one.
func (o *outbox) chunk(number uint64) *sentChunk { return o.chunks.At(number) }

// send takes a message, whose block is freed once it is acked whole.
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

// next returns the next slice to send, lost ones first, and the number of its sending. An earlier sending of it that
// still flies counts as lost.
func (o *outbox) next(now time.Time) (slice chunk.Slice, number uint64, ok bool) {
	if o.idle() {
		return chunk.Slice{}, 0, false
	}
	if slice, ok = o.sender.NextSlice(now); !ok {
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

// settle notes the fate of a sending that flies, and returns the sending; nil if it does not fly.
func (o *outbox) settle(number uint64, f fate) *sending {
	s := o.flight.get(number)
	if s == nil || s.fate != flying {
		return nil
	}
	o.flight.land(s, f)
	return s
}

// lose notes that a sending did not arrive, or did not leave; its slice will leave again.
func (o *outbox) lose(number uint64) {
	if s := o.settle(number, lost); s != nil {
		o.sender.Lost(s.id, int(s.index), o.time(s.at))
	}
}

// arrive notes that a sending arrived. Whether its slice was kept, an ack will say.
func (o *outbox) arrive(number uint64) { o.settle(number, landed) }

// resendAll schedules all slices again that are not acked.
func (o *outbox) resendAll() {
	o.sender.Restart()
	o.sender.SetRTT(ownResend)
}

// news returns an ack's chunk, nil if there is no such chunk, and the slices that it acks for the first time. It ignores acks of
// slices that never left.
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

// acknowledge notes that the slices in fresh are acked, and frees messages that are acked whole, in order.
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

// underWay returns how many slices of a chunk fly.
func (o *outbox) underWay(c *sentChunk) (n int) {
	for _, newest := range c.newest {
		if s := o.flight.get(newest - 1); newest != 0 && s != nil && s.fate == flying {
			n++
		}
	}
	return n
}

// trim gives up spare memory, if all slices are acked.
func (o *outbox) trim() {
	if o.sender != nil && o.idle() {
		o.sender.Trim()
		o.flight.Trim()
		o.chunks.Trim()
	}
}
