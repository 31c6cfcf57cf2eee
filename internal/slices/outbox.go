package slices

import (
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// Datagram is the size, in bytes, of the smallest datagrams to which QUIC falls back. We cut
	// slices only once, so they must fit any later path as well.
	Datagram = 1163

	// Size is the number of bytes of content in a datagram. It's the same on all carriers,
	// because chunks move from one carrier to another.
	Size = Datagram - 1 - chunk.Overhead

	// Pipeline is the maximum number of chunks in flight. At about 32 KiB each, they amount to 32
	// MiB, although credit usually allows less.
	//
	// We need that many because a chunk stays in flight until the last of its slices has arrived,
	// including those that were lost and resent. At 100 Mbit/s, a round trip of 200 ms and 5 %
	// loss, the chunks of three round trips are in flight. They are 7.5 MB or about 230 chunks, so
	// a path four times as fast needs nearly all of them.
	Pipeline = 1024

	// ReservedRecords is the number of chunks for which a receiver always has room, however small
	// they are, if the peer stays within its credit. Its owner reserves memory for their overhead.
	ReservedRecords = 256

	// SlicesPerPart is the number of slices in a full part of a transfer, including its header.
	SlicesPerPart = 28

	// minChunks is the number of chunk records that an outbox begins with. The ring of records
	// grows as needed, so any small number will do.
	minChunks = 16

	// ownResend is the time after which the chunk.Sender would resend a slice automatically. It
	// shouldn't have to, since control or the carrier notices losses much sooner.
	ownResend = 10 * time.Second
)

// config is the configuration of chunk.Sender and chunk.Receiver.
var config = chunk.Config{
	SliceSize: Size, Pipeline: Pipeline, SendQueue: -1, ReceiveQueue: leastRecords,
	Rate: -1, ResendDelay: ownResend, AckDelay: -1,
}

// A Block is the memory that holds a message.
type Block interface{ Free() }

// An outbox is a send queue. It cuts messages into slices, and keeps track of each slice until the
// peer acks it. The machine calls next when the path can take a slice, lose when a slice was lost,
// and newlyAcked and then acknowledge when an ack arrives.
type outbox struct {
	sender  *chunk.Sender            // made for the first message, because many connections send none
	chunks  recovery.Ring[sentChunk] // chunks with unacked slices, by number
	held    int                      // bytes of messages in chunks
	unsent  int                      // bytes of messages that were never sent
	unacked int                      // number of slices that were sent but aren't acked
	resent  uint64                   // number of slices that were sent again

	epoch    time.Time // start of the flight's clock: the first call of since
	flight   flight
	withheld withholding
}

// A sentChunk is a message whose slices aren't all acked yet.
type sentChunk struct {
	id       uint16
	message  []byte
	block    Block
	acked    chunk.Bits
	everLost chunk.Bits // slices that control has declared lost at least once, perhaps wrongly
	newest   []uint64   // for newestSending: the number of each slice's, plus one; 0 if neither sent nor withheld
}

// start fills in the record of a message.
func (c *sentChunk) start(id uint16, message []byte, b Block) {
	count := sliceCount(message)
	*c = sentChunk{id: id, message: message, block: b, newest: slices.Grow(c.newest[:0], count)[:count]}
	clear(c.newest)
}

// newestSending returns the number of a slice's newest sending. ok is false if the slice was never
// sent. A slice that was withheld and then released counts as never sent.
func (c *sentChunk) newestSending(index int) (number uint64, ok bool) {
	newest := c.newest[index]
	return newest - 1, newest != 0
}

// free frees the message.
func (c *sentChunk) free() {
	c.block.Free()
	c.block, c.message = nil, nil
}

// sliceCount returns the number of slices that a message takes.
func sliceCount(message []byte) int { return (len(message) + Size - 1) / Size }

// full reports whether another message has to wait until some chunks are acked.
//
// Since the receiver reserves memory for the overhead of only ReservedRecords chunks, we may have
// more than that only if they are large: at least half a full part on average.
func (o *outbox) full() bool {
	count := o.chunks.Len()
	return count == Pipeline || count >= ReservedRecords && o.held < count*SlicesPerPart*Size/2
}

// idle reports whether all slices are acked.
func (o *outbox) idle() bool { return o.chunks.Len() == 0 }

// since converts a time to the flight's clock, which begins with the first call.
func (o *outbox) since(now time.Time) time.Duration {
	if o.epoch.IsZero() {
		o.epoch = now
	}
	return now.Sub(o.epoch)
}

// time converts a time on the flight's clock to wall time.
func (o *outbox) time(t time.Duration) time.Time { return o.epoch.Add(t) }

// sentAt returns the time of sending number, which must still be in the flight.
func (o *outbox) sentAt(number uint64) time.Time { return o.time(o.flight.At(number).at) }

// find returns the record of a chunk, or nil if we have none. An ID is the low bits of a chunk's
// number, which is enough to find its place in the ring.
func (o *outbox) find(id uint16) *sentChunk {
	if o.idle() {
		return nil
	}
	c := o.chunks.At(uint64(id))
	if c.block == nil || c.id != id {
		return nil
	}
	return c
}

// send queues a message. Its block is freed when the whole message has been acked.
func (o *outbox) send(message []byte, b Block) error {
	if o.sender == nil {
		sender, err := chunk.NewSender(config)
		if err != nil {
			return err
		}
		o.sender = sender
		o.deferOwnResend()
	}
	number, err := o.sender.Send(message)
	if err != nil {
		return err
	}
	o.chunks.Push(minChunks).start(uint16(number), message, b)
	o.held += len(message)
	o.unsent += len(message)
	return nil
}

// deferOwnResend makes the sender believe that a round trip takes ownResend, so that it doesn't
// resend slices before that. It has to be called again after each Restart of the sender.
func (o *outbox) deferOwnResend() { o.sender.SetRTT(ownResend) }

// next takes the next slice to send and returns it with a number for this sending. Lost slices go
// first. If mayWithhold is set, next may pass over a slice and withhold it.
func (o *outbox) next(now time.Time, mayWithhold bool) (slice chunk.Slice, number uint64, ok bool) {
	if o.idle() {
		return chunk.Slice{}, 0, false
	}
	slice, ok = o.sender.NextSlice(now)
	if !ok {
		return chunk.Slice{}, 0, false
	}
	c := o.find(slice.ChunkID)
	if previous, ok := c.newestSending(slice.Index); ok && o.isWithheld(previous) {
		o.release()
	}
	newest := &c.newest[slice.Index]
	previous, again := c.newestSending(slice.Index)
	s := sending{at: o.since(now), id: slice.ChunkID, index: uint8(slice.Index), again: again}
	if mayWithhold && !s.again && o.withheld.pick(o.unsent == len(slice.Data)) {
		o.withhold(newest, s, len(slice.Data))
		return o.next(now, false)
	}
	if s.again {
		// If the earlier sending is still in flight, consider it lost.
		o.resent++
		o.settleInFlight(previous, lost)
	} else {
		o.unacked++
		o.unsent -= len(slice.Data)
	}
	s.size = uint16(len(slice.Data) + 1 + chunk.Overhead)
	number = o.flight.launch(s)
	*newest = number + 1
	return slice, number, true
}

// withhold makes a slice of that many bytes count as sent, though with none in flight. newest is
// its place in its chunk's record.
func (o *outbox) withhold(newest *uint64, s sending, bytes int) {
	*newest = o.flight.launch(s) + 1
	o.withheld.current = *newest
	o.withheld.bytes = bytes
	o.withheld.count++
}

// isWithheld reports whether the sending with a number is the slice that is withheld now.
func (o *outbox) isWithheld(number uint64) bool { return number+1 == o.withheld.current }

// sendable returns the number of bytes in unsent that next may return now.
func (o *outbox) sendable() int { return o.unsent - o.withheld.bytes }

// release makes next return the slice that is withheld. ok is false if there is none.
func (o *outbox) release() (ok bool) {
	if o.withheld.current == 0 {
		return false
	}
	o.lose(o.withheld.current - 1)
	return true
}

// settleInFlight sets the fate of a sending and returns the sending, or nil if it wasn't in flight.
func (o *outbox) settleInFlight(number uint64, f fate) *sending {
	if !o.flight.isInFlight(number) {
		return nil
	}
	s := o.flight.At(number)
	o.flight.settle(s, f)
	return s
}

// lose is called when a sending was lost or couldn't be sent. Its slice will be sent again, or for
// the first time if it was withheld.
func (o *outbox) lose(number uint64) {
	s := o.settleInFlight(number, lost)
	if s == nil {
		return
	}
	o.sender.Lost(s.id, int(s.index), o.time(s.at))
	if o.isWithheld(number) {
		o.find(s.id).newest[s.index] = 0
		o.withheld.current, o.withheld.bytes = 0, 0
	}
}

// arrive is called when a sending has arrived. Only an ack can tell whether the peer was able
// to keep the slice.
func (o *outbox) arrive(number uint64) { o.settleInFlight(number, arrived) }

// resendAll makes us send all unacked slices again. There must be some.
func (o *outbox) resendAll() {
	o.sender.Restart()
	o.deferOwnResend()
}

// newlyAcked returns the chunk to which an ack belongs, and which of its slices are acked for the
// first time. If we have no such chunk, c is nil. The error means that the peer made up the ack,
// because we haven't sent one of the slices.
func (o *outbox) newlyAcked(a *chunk.Ack) (c *sentChunk, fresh chunk.Bits, err error) {
	c = o.find(a.ChunkID)
	if c == nil || len(c.newest) != a.Count {
		return nil, fresh, nil
	}
	for i := range c.newest {
		number, sent := c.newestSending(i)
		switch {
		case !a.Acked.Has(i) || c.acked.Has(i):
		case !sent || o.isWithheld(number):
			return nil, fresh, fmt.Errorf("ack of slice %d of chunk %d, which has not been sent", i, a.ChunkID)
		default:
			fresh.Set(i)
		}
	}
	return c, fresh, nil
}

// acknowledge marks the slices in fresh as acked. It frees completely acked messages, in order.
func (o *outbox) acknowledge(now time.Time, c *sentChunk, fresh *chunk.Bits) {
	for i := range c.newest {
		if !fresh.Has(i) {
			continue
		}
		c.acked.Set(i)
		o.unacked--
		number, _ := c.newestSending(i) // a fresh slice was sent
		if s := o.flight.get(number); s != nil {
			o.flight.settle(s, arrived)
		}
	}
	o.sender.Acknowledge(now, chunk.Ack{ChunkID: c.id, Count: len(c.newest), Acked: c.acked})
	for ; o.chunks.Oldest < o.sender.Finished(); o.chunks.Oldest++ {
		c := o.chunks.At(o.chunks.Oldest)
		o.held -= len(c.message)
		c.free()
	}
}

// inFlight returns the number of slices of a chunk that are in flight.
func (o *outbox) inFlight(c *sentChunk) (n int) {
	for i := range c.newest {
		if number, ok := c.newestSending(i); ok && o.flight.isInFlight(number) {
			n++
		}
	}
	return n
}

// trim frees spare memory, unless some slices are still unacked.
func (o *outbox) trim() {
	if o.sender != nil && o.idle() {
		o.sender.Trim()
		o.flight.Trim()
		o.chunks.Trim()
	}
}
