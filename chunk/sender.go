package chunk

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A Sender sends chunks reliably and in order, slice by slice until all are
// acked. It has no clock and no lock. Its owner asks it for packets whenever
// the path can take one, and again at NextTimeout, after Send and after acks.
type Sender struct {
	config Config // effective
	clock  clock

	// Chunks have numbers; the low 16 bits are their id.
	flights recovery.Ring[flight] // from the first chunk that is not finished
	queue   recovery.Ring[[]byte] // from the first chunk that is not in flight

	// Choosing the next slice.
	fresh   uint64        // no chunk below it has a slice that was never sent
	hints   int           // number of slices that Lost has named and that were not sent again
	longest time.Duration // lower bound of the time at which any slice that waits for its ack was sent

	// Pace.
	budget   budget
	resend   resend
	bursting bool
	pause    time.Duration // when the pause after a burst ends

	stats SenderStats
}

// SenderStats counts what a sender has done since it was created.
type SenderStats struct {
	Chunks, ChunkBytes  uint64        // finished chunks: every slice was acked
	AckedBytes          uint64        // in acked slices, including those of unfinished chunks
	Slices, SliceBytes  uint64        // slices sent, including resent ones
	Resent              uint64        // slices sent again
	Hints               uint64        // slices sent again because of Lost
	Acks                uint64        // acks of a chunk in flight
	AcksIgnored         uint64        // acks of another chunk, or with another number of slices
	Malformed           uint64        // packets that are not valid acks
	RTT                 time.Duration // round trip; 0 = unknown
	InFlight, QueueSize int           // chunks in flight, and chunks that wait
}

// NewSender returns a sender, or the error of Config.Validate.
func NewSender(c Config) (*Sender, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.effective()
	s := &Sender{config: c, longest: never}
	s.budget.rate = int64(c.Rate)
	s.resend = newResend(c)
	return s, nil
}

// Send queues a chunk of 1 byte to MaxSlices slices. The caller must not change the
// bytes until the chunk is finished, that is, until Finished is above its number.
// Numbers count from 0; the id on the wire is their low 16 bits. An error Is ErrEmpty,
// ErrTooLarge or, until a chunk is finished, ErrQueueFull; nothing of the chunk is kept.
func (s *Sender) Send(data []byte) (number uint64, err error) {
	limit := MaxSlices * s.config.SliceSize
	switch {
	case len(data) == 0:
		return 0, ErrEmpty
	case len(data) > limit:
		return 0, fmt.Errorf("%w: %d bytes; %d slices of Config.SliceSize = %d hold %d", ErrTooLarge, len(data), MaxSlices, s.config.SliceSize, limit)
	case s.flights.Len() == s.config.Pipeline && s.queue.Len() >= s.config.SendQueue:
		return 0, fmt.Errorf("%w: %d chunks in flight (Config.Pipeline) and %d waiting (Config.SendQueue)", ErrQueueFull, s.flights.Len(), s.queue.Len())
	}
	*s.queue.Push(1) = data
	s.launch()
	return s.queue.Next - 1, nil
}

// Finished returns the number of finished chunks: all slices of these, and of
// all chunks before them, are acked.
func (s *Sender) Finished() uint64 { return s.flights.Oldest }

// Done reports whether all chunks are finished.
func (s *Sender) Done() bool { return s.flights.Len() == 0 }

// SetRate replaces Config.Rate; unused bytes stay in the budget. 0 or negative = no limit.
func (s *Sender) SetRate(bytesPerSecond int) { s.budget.rate = int64(min(bytesPerSecond, maxRate)) }

// SetRTT sets the path's round trip, which replaces the sender's own estimate
// from now on; 0 returns to the estimate.
func (s *Sender) SetRTT(rtt time.Duration) { s.resend.tell(rtt) }

// Stats returns a copy of the counters.
func (s *Sender) Stats() SenderStats {
	st := s.stats
	st.RTT, st.InFlight, st.QueueSize = s.resend.rtt, s.flights.Len(), s.queue.Len()
	return st
}

// Trim frees memory that is kept for later chunks. Call it when the sender pauses.
func (s *Sender) Trim() {
	s.flights.Shrink(1)
	for n := s.flights.Next; n < s.flights.Oldest+uint64(s.flights.Cap()); n++ {
		*s.flights.At(n) = flight{}
	}
}

// AppendSlice appends the packet that must be sent now. ok is false if there is
// none before NextTimeout.
func (s *Sender) AppendSlice(now time.Time, buf []byte) (packet []byte, ok bool) {
	slice, ok := s.NextSlice(now)
	if !ok {
		return buf, false
	}
	return s.config.AppendSlice(buf, slice), true
}

// NextSlice is AppendSlice for drivers with packets of their own. The slice
// counts as sent; its data aliases the chunk.
func (s *Sender) NextSlice(now time.Time) (slice Slice, ok bool) {
	s.advance(now)
	number, i := s.pick()
	if i == none || s.clock.now < s.held() {
		s.budget.rest(s.most())
		return Slice{}, false
	}
	f := s.flights.At(number)
	size := f.size(i, s.config.SliceSize)
	if !s.free(f) && !s.budget.take(size+s.config.Overhead) {
		return Slice{}, false
	}
	s.sent(f, i)
	first := i * s.config.SliceSize
	return Slice{ChunkID: uint16(number), Index: i, Count: f.count, Data: f.data[first : first+size : first+size]}, true
}

// advance sets the clock, and adds to the budget while there is something to send.
func (s *Sender) advance(now time.Time) {
	s.clock.set(now)
	if s.Done() {
		s.budget.rest(s.most())
		return
	}
	s.budget.add(s.clock.now, s.most())
}

// most returns the most bytes that one slice is charged to the budget.
func (s *Sender) most() int { return s.config.SliceSize + s.config.Overhead }

// NextTimeout returns when there may be a packet to send if no ack arrives before. A time that
// is not after the last now means at once. ok is false if there is none before the next Send.
func (s *Sender) NextTimeout() (at time.Time, ok bool) {
	if s.Done() {
		return time.Time{}, false
	}
	number, i := s.pick()
	due := s.clock.now
	if i == none {
		number, i, due = s.pickNext()
	}
	due = max(due, s.held())
	if f := s.flights.At(number); !s.free(f) {
		due = max(due, s.budget.when(f.size(i, s.config.SliceSize)+s.config.Overhead))
	}
	return s.clock.time(due), true
}

// ReceiveAck handles a packet with an ack, and keeps no reference to it. An
// error Is ErrMalformed; then the packet has changed nothing.
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

// Acknowledge handles an ack that the driver has parsed itself, and reports whether
// it acks a slice for the first time. No ack undoes what another one has acked.
func (s *Sender) Acknowledge(now time.Time, a Ack) bool {
	s.advance(now)
	number, ok := s.number(a.ChunkID)
	if !ok || a.Count != s.flights.At(number).count {
		s.stats.AcksIgnored++
		return false
	}
	s.stats.Acks++
	s.resend.heard()
	return s.acknowledge(number, a.Acked)
}

// Lost reports that a packet was lost or could not be sent. The packet had slice
// index of the chunk with this id, and NextSlice or AppendSlice made it at time sent.
// Lost does nothing if the slice was sent again or acked since. A driver that calls
// Lost knows the path, so the sender does not fall back to probes for want of acks.
func (s *Sender) Lost(id uint16, index int, sent time.Time) {
	number, ok := s.number(id)
	if !ok || index < 0 || index >= s.flights.At(number).count {
		return
	}
	f := s.flights.At(number)
	if slice := &f.slices[index]; slice.state == waiting && slice.sent == sent.Sub(s.clock.epoch) {
		f.lose(index)
		s.hints++
		s.resend.heard()
	}
}

// Restart is called when packets change to another path. It forgets the RTT, and
// queues all slices in flight again. Acked slices stay acked. The receiver's
// Restart then acks those that have arrived, which need not be sent again.
func (s *Sender) Restart() {
	s.resend.forget()
	s.bursting, s.pause = false, 0
	for n := s.flights.Oldest; n < s.flights.Next; n++ {
		for f := s.flights.At(n); f.waiting.head != none; s.hints++ {
			f.lose(int(f.waiting.head))
		}
	}
	s.longest = never
}
