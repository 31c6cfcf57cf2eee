package slices

import (
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// Datagram is the smallest that QUIC falls back to, so that a slice that was cut once fits every path later.
	Datagram = 1163
	// Size is what of a datagram is content. Chunks move between carriers, so it is the same for all.
	Size = Datagram - 1 - chunk.Overhead
	// Pipeline is how many chunks may be in flight: 32 MiB, for a chunk is a part of about 32 KiB. One that lost a slice waits for
	// it: at 100 Mbit/s and 200 ms, 5 % lost, three round trips of them are open. Credit, which memory bounds, is most often less.
	Pipeline = 1024
	// Places are for how many chunks a receiver has records from the beginning, and reckons with places of slices that are not full.
	Places = 256
	// PartSlices are what a full part of a transfer fills, with its header.
	PartSlices = 28

	// leastChunks are the records that an outbox begins with.
	leastChunks = 16

	// ownResend keeps the sender's own delay before it sends a slice again out of the way of those who see losses.
	ownResend = 10 * time.Second
)

// config is that of both ends.
var config = chunk.Config{
	SliceSize: Size, Pipeline: Pipeline, SendQueue: -1, ReceiveQueue: Places,
	Rate: -1, ResendDelay: ownResend, AckDelay: -1,
}

// Block is the memory that a message lies in.
type Block interface{ Free() }

// outbox cuts messages into slices and knows what became of each. Who carries them asks next for one when the path can take
// it, tells with lose what is lost, and hands over the acks that come.
type outbox struct {
	sender *chunk.Sender            // nil before the first message
	chunks recovery.Ring[sentChunk] // not acked whole, by number
	held   int                      // bytes of them
	unsent int                      // bytes never sent
	resent uint64                   // slices

	epoch  time.Time // of the flight's clock: when it was first asked for
	flight flight
}

// sentChunk is a message and what is known of its slices.
type sentChunk struct {
	id      uint16
	message []byte
	block   Block
	acked   chunk.Bits
	givenUp chunk.Bits // by a threshold; the peer may have them all the same
	newest  []uint64   // sending of each slice, plus one; 0 = not sent
}

// begin takes a message.
func (c *sentChunk) begin(id uint16, message []byte, b Block) {
	count := sliceCount(message)
	if cap(c.newest) < count {
		c.newest = make([]uint64, count)
	}
	*c = sentChunk{id: id, message: message, block: b, newest: c.newest[:count]}
	clear(c.newest)
}

// end frees the message.
func (c *sentChunk) end() {
	c.block.Free()
	c.block, c.message = nil, nil
}

// sliceCount is how many slices a message takes.
func sliceCount(message []byte) int { return (len(message) + Size - 1) / Size }

// full reports whether another message has to wait for chunks in flight. Beyond Places these are at least half of a full part each,
// for what others take beyond their content a receiver does not reckon with.
func (o *outbox) full() bool {
	count := o.chunks.Len()
	return count == Pipeline || count >= Places && o.held < count*PartSlices*Size/2
}

// idle reports whether all is acked.
func (o *outbox) idle() bool { return o.chunks.Len() == 0 }

// since turns a time into the flight's.
func (o *outbox) since(now time.Time) time.Duration {
	if o.epoch.IsZero() {
		o.epoch = now
	}
	return now.Sub(o.epoch)
}

// time turns it back.
func (o *outbox) time(t time.Duration) time.Time { return o.epoch.Add(t) }

// chunk returns the place of a number, or of an id, which are the low bits of it.
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

// next returns the slice that is to leave, lost ones first, and the number under which its fate is known. A sending of it
// that is still flying counts as lost.
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
		o.replace(*newest - 1)
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

// replace gives up a sending in whose place another leaves.
func (o *outbox) replace(number uint64) {
	if s := o.flight.get(number); s != nil && s.fate == flying {
		o.flight.land(s, lost)
	}
}

// lose tells that what left under that number did not arrive, or did not leave.
func (o *outbox) lose(number uint64) {
	if s := o.flight.get(number); s != nil && s.fate == flying {
		o.flight.land(s, lost)
		o.sender.Lost(s.id, int(s.index), o.time(s.at))
	}
}

// arrive tells that what left under that number arrived; whether it was kept, an ack will say.
func (o *outbox) arrive(number uint64) {
	if s := o.flight.get(number); s != nil && s.fate == flying {
		o.flight.land(s, landed)
	}
}

// resendAll schedules every slice again that is not acked.
func (o *outbox) resendAll() {
	o.sender.Restart()
	o.sender.SetRTT(ownResend)
}

// news returns the chunk that an ack tells of and which of its slices it says for the first time are there; nil when there is
// no such chunk. A peer may ack slices that never left, but need not be believed.
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

// acknowledge takes the news of a chunk, and frees the messages that are through.
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

// underWay returns how many slices of a chunk are flying.
func (o *outbox) underWay(c *sentChunk) (n int) {
	for _, newest := range c.newest {
		if s := o.flight.get(newest - 1); newest != 0 && s != nil && s.fate == flying {
			n++
		}
	}
	return n
}

// trim gives up spare memory, when nothing is under way.
func (o *outbox) trim() {
	if o.sender != nil && o.idle() {
		o.sender.Trim()
		o.flight.Trim()
		o.chunks.Trim()
	}
}
