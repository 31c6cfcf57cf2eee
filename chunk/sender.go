package chunk

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/words"
)

// A Sender sends chunks reliably and in order.
//
// It doesn't send packets itself. Its owner asks it for the next packet whenever the path can take
// one, and again at NextTimeout, after Send and after acks. A Sender has no clock and is not safe
// for concurrent use.
type Sender struct {
	config Config // effective
	clock  clock

	// Chunks by number, whose low 16 bits are the chunk's id.
	flights recovery.Ring[flight] // chunks in flight, from the first unfinished one
	queue   recovery.Ring[[]byte] // chunks waiting to be in flight

	// These let pick find the next slice without examining every chunk.
	unsentFrom uint64        // all slices of chunks before this one were sent at least once
	lostSlices int           // slices reported by Lost that have not been resent
	oldestSent time.Duration // no slice that is waiting for its ack was sent before this time

	// Pacing.
	budget   budget
	resend   resend
	bursting bool          // in the middle of a burst
	pause    time.Duration // when the pause after a burst ends

	stats SenderStats
}

// SenderStats counts what a sender did since it was created.
type SenderStats struct {
	Chunks, ChunkBytes  uint64        // finished chunks, whose slices were all acked
	AckedBytes          uint64        // bytes in acked slices, including those of unfinished chunks
	Slices, SliceBytes  uint64        // slices sent, including resent ones
	Resent              uint64        // slices resent, for whatever reason
	Hints               uint64        // slices resent because of Lost
	Acks                uint64        // acks of a chunk in flight
	AcksIgnored         uint64        // acks of another chunk, or with another number of slices
	Malformed           uint64        // packets that are not valid acks
	RTT                 time.Duration // round-trip time; 0 = unknown
	InFlight, QueueSize int           // chunks in flight, and chunks waiting
}

// NewSender returns a sender. It returns the error of Config.Validate if c is invalid.
func NewSender(c Config) (*Sender, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.effective()
	s := &Sender{config: c, oldestSent: never}
	s.budget.rate = int64(c.Rate)
	s.resend = newResend(c)
	return s, nil
}

// Send queues a chunk of 1 byte to MaxSlices slices and returns its number. The first number is 0.
// The chunk's id on the wire is the low 16 bits of its number.
//
// The caller must not change data until the chunk is finished, that is, until Finished returns more
// than its number.
//
// An error wraps ErrEmpty, ErrTooLarge or ErrQueueFull, and means that nothing was queued.
// After ErrQueueFull, Send fails until a chunk is finished.
func (s *Sender) Send(data []byte) (number uint64, err error) {
	limit := MaxSlices * s.config.SliceSize
	switch {
	case len(data) == 0:
		return 0, ErrEmpty
	case len(data) > limit:
		return 0, fmt.Errorf("%w: %d bytes; the limit is %d (%d slices of Config.SliceSize = %d)",
			ErrTooLarge, len(data), limit, MaxSlices, s.config.SliceSize)
	case s.flights.Len() == s.config.Pipeline && s.queue.Len() >= s.config.SendQueue:
		return 0, fmt.Errorf("%w: %s in flight (Config.Pipeline) and %d waiting (Config.SendQueue)",
			ErrQueueFull, words.Plural(s.flights.Len(), "chunk is", "chunks are"), s.queue.Len())
	}
	*s.queue.Push(1) = data
	s.launch()
	return s.queue.Next - 1, nil
}

// Finished returns the number of finished chunks. A chunk is finished when all of its slices and
// all slices of the chunks before it are acked.
func (s *Sender) Finished() uint64 { return s.flights.Oldest }

// Done reports whether all chunks are finished.
func (s *Sender) Done() bool { return s.flights.Len() == 0 }

// SetRate replaces Config.Rate. Unused bytes stay in the budget. A rate of 0 or less means no
// limit, and a rate above 2,000,000,000 counts as that.
func (s *Sender) SetRate(bytesPerSecond int) { s.budget.rate = int64(min(bytesPerSecond, maxRate)) }

// SetRTT sets the path's round-trip time, which replaces the sender's own estimate. If rtt is 0 or
// less, the sender estimates it again. The maximum is 10 s.
func (s *Sender) SetRTT(rtt time.Duration) { s.resend.setRTT(rtt) }

// Stats returns a copy of the counters.
func (s *Sender) Stats() SenderStats {
	st := s.stats
	st.RTT = s.resend.rtt
	st.InFlight = s.flights.Len()
	st.QueueSize = s.queue.Len()
	return st
}

// Trim frees the memory that is kept for later chunks. Call it when nothing will be sent for a
// while.
func (s *Sender) Trim() {
	s.flights.Shrink(1)
	for n := s.flights.Next; n < s.flights.Oldest+uint64(s.flights.Cap()); n++ {
		*s.flights.At(n) = flight{}
	}
}

// AppendSlice appends the next packet to send. ok is false if there is none before NextTimeout.
func (s *Sender) AppendSlice(now time.Time, buf []byte) (packet []byte, ok bool) {
	slice, ok := s.NextSlice(now)
	if !ok {
		return buf, false
	}
	return s.config.AppendSlice(buf, slice), true
}

// NextSlice is like AppendSlice, for drivers that encode packets themselves. The slice
// counts as sent. Its data aliases the chunk.
func (s *Sender) NextSlice(now time.Time) (slice Slice, ok bool) {
	s.advance(now)
	number, i := s.pick()
	if i == none || s.clock.now < s.holdUntil() {
		s.budget.stop(s.maxCost()) // don't accumulate bytes while something else limits sending
		return Slice{}, false
	}
	f := s.flights.At(number)
	size := f.size(i, s.config.SliceSize)
	if !s.inBurst(f) && !s.budget.take(size+s.config.Overhead) {
		return Slice{}, false
	}
	s.recordSent(f, i)
	first := i * s.config.SliceSize
	end := first + size
	return Slice{ChunkID: uint16(number), Index: i, Count: f.count, Data: f.data[first:end:end]}, true
}

// advance sets the clock and adds bytes to the budget for the time that has passed, unless there
// was nothing to send.
func (s *Sender) advance(now time.Time) {
	s.clock.set(now)
	if s.Done() {
		s.budget.stop(s.maxCost())
		return
	}
	s.budget.add(s.clock.now, s.maxCost())
}

// maxCost returns the most that one slice takes out of the budget, in bytes.
func (s *Sender) maxCost() int { return s.config.SliceSize + s.config.Overhead }

// NextTimeout returns the time at which there may be a packet to send, unless an ack arrives
// earlier. A time that is not after the latest now means immediately. ok is false if there will be
// no packet before the next Send.
func (s *Sender) NextTimeout() (at time.Time, ok bool) {
	if s.Done() {
		return time.Time{}, false
	}
	number, i := s.pick()
	due := s.clock.now
	if i == none {
		number, i, due = s.pickNext()
	}

	// It may also have to wait for the end of a pause and for the budget.
	due = max(due, s.holdUntil())
	if f := s.flights.At(number); !s.inBurst(f) {
		due = max(due, s.budget.when(f.size(i, s.config.SliceSize)+s.config.Overhead))
	}
	return s.clock.time(due), true
}

// ReceiveAck handles a packet with an ack. It keeps no reference to the packet. An error wraps
// ErrMalformed and means that the packet changed nothing.
func (s *Sender) ReceiveAck(now time.Time, packet []byte) error {
	p, err := s.config.Parse(packet)
	if err == nil && p.Kind != KindAck {
		err = errNotAck
	}
	if err != nil {
		s.stats.Malformed++
		return err
	}
	s.Acknowledge(now, p.Ack)
	return nil
}

// Acknowledge handles an ack that the driver has parsed itself. It returns true if the ack is the
// first one for any slice. An acked slice stays acked, whatever later acks say.
func (s *Sender) Acknowledge(now time.Time, a Ack) (isNew bool) {
	s.advance(now)
	number, ok := s.number(a.ChunkID)
	if !ok || a.Count != s.flights.At(number).count {
		s.stats.AcksIgnored++
		return false
	}
	s.stats.Acks++
	s.resend.onAck()
	return s.acknowledge(number, a.Acked)
}

// Lost tells the sender that a packet was lost or could not be sent. The packet contained slice
// index of chunk id, and NextSlice or AppendSlice returned it at time sent. Lost does nothing if
// the slice has been resent or acked since.
//
// A call counts as a sign of life from the path, which delays probing as an ack does.
func (s *Sender) Lost(id uint16, index int, sent time.Time) {
	number, ok := s.number(id)
	if !ok || index < 0 || index >= s.flights.At(number).count {
		return
	}
	f := s.flights.At(number)
	slice := &f.slices[index]
	if slice.state == waiting && slice.sent == sent.Sub(s.clock.epoch) {
		f.lose(index)
		s.lostSlices++
		s.resend.onAck()
	}
}

// Restart forgets the RTT and queues all unacked slices in flight again. Call it when packets
// change to another path.
//
// The receiver's Restart then acks the slices that have already arrived, which need not be resent.
func (s *Sender) Restart() {
	s.resend.forget()
	s.bursting = false
	s.pause = 0
	for n := s.flights.Oldest; n < s.flights.Next; n++ {
		f := s.flights.At(n)
		for f.waiting.head != none {
			f.lose(int(f.waiting.head))
			s.lostSlices++
		}
	}
	s.oldestSent = never
}
