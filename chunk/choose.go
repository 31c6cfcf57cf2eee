package chunk

import "time"

const (
	burstMax   = 256 << 10              // the article: "small chunks in the few 100s of k range"
	burstPause = 100 * time.Millisecond // the article: "wait 100ms"
	burstIdle  = time.Second            // a sender that has sent nothing for this long may burst again
)

// number returns the number of the chunk in flight with an id; ok is false if there is none.
func (s *Sender) number(id uint16) (number uint64, ok bool) {
	number = s.flights.Oldest + uint64(id-uint16(s.flights.Oldest))
	return number, number < s.flights.Next
}

// launch puts waiting chunks in flight while there is room.
func (s *Sender) launch() {
	for s.queue.Len() > 0 && s.flights.Len() < s.config.Pipeline {
		s.flights.Push(1).reset(s.queue.Take(), s.config.SliceSize)
	}
}

// pick returns the slice to send now, of the oldest chunk that has one, or
// none. With many chunks in flight nearly all of them wait for acks, so pick
// examines them only if a slice is lost or may be due.
func (s *Sender) pick() (number uint64, index int) {
	if s.hints == 0 && s.longest > s.clock.now-s.resend.delay() {
		return s.pickUnsent()
	}
	longest := never
	for n := s.flights.Oldest; n < s.flights.Next; n++ {
		f := s.flights.At(n)
		i := f.ready(&s.resend, s.clock.now)
		if i != none && f.slices[i].state != unsent {
			return n, i
		}
		longest = min(longest, f.longest())
		if i != none { // the slice was never sent, so no later chunk has begun
			s.longest = longest
			return n, i
		}
	}
	s.longest = longest
	return 0, none
}

// pickUnsent returns the first slice that was never sent, or none.
func (s *Sender) pickUnsent() (number uint64, index int) {
	for s.fresh = max(s.fresh, s.flights.Oldest); s.fresh < s.flights.Next; s.fresh++ {
		if i := s.flights.At(s.fresh).unsent(); i != none {
			return s.fresh, i
		}
	}
	return 0, none
}

// pickNext returns the slice that will be due first, and when. All slices of
// unfinished chunks must be waiting for acks.
func (s *Sender) pickNext() (number uint64, index int, due time.Duration) {
	due = never
	for n := s.flights.Oldest; n < s.flights.Next; n++ {
		if at := s.flights.At(n).due(&s.resend); at < due {
			number, due = n, at
		}
	}
	return number, int(s.flights.At(number).waiting.head), due
}

// held returns the time before which no slice may be sent, even if one is ready:
// the end of the pause after a burst or, while the path is silent, the next probe.
func (s *Sender) held() time.Duration {
	if s.resend.silent(s.clock.now) {
		return max(s.pause, s.resend.nextProbe())
	}
	return s.pause
}

// free reports whether the next slice of f is not charged to the budget,
// because it is part of a burst or begins one.
func (s *Sender) free(f *flight) bool {
	switch {
	case !s.config.Burst || f != s.flights.At(s.flights.Oldest) || f.unsent() == none:
		return false
	case s.bursting:
		return true
	}
	idle := s.resend.lastSent == never || s.clock.now-s.resend.lastSent >= burstIdle
	return idle && !f.begun && len(f.data) <= burstMax
}

// sent records that slice i of f is sent.
func (s *Sender) sent(f *flight, i int) {
	size := f.size(i, s.config.SliceSize)
	s.stats.Slices++
	s.stats.SliceBytes += uint64(size)
	switch f.slices[i].state {
	case lost:
		s.hints--
		s.stats.Hints++
		s.stats.Resent++
	case waiting:
		s.stats.Resent++
		s.resend.again(&f.slices[i], s.clock.now)
	}
	s.bursting = s.free(f)
	f.send(i, s.clock.now, s.stats.Slices)
	s.resend.sent(s.clock.now)
	s.longest = min(s.longest, s.clock.now)
	if s.bursting && f.unsent() == none {
		s.bursting, s.pause = false, s.clock.now+burstPause
	}
}

// acknowledge marks the slices of set as acked in a chunk in flight, and
// reports whether some were not acked before.
func (s *Sender) acknowledge(number uint64, set Bits) (news bool) {
	f := s.flights.At(number)
	known := firstBits(f.count)
	for i := range set {
		set[i] &= known[i]
	}
	rtt := sample{never, never}
	blown := f.ack(set, func(i int) {
		if f.slices[i].state == lost {
			s.hints--
		}
		s.resend.hear(&f.slices[i], s.clock.now, f.left, &rtt)
		s.stats.AckedBytes += uint64(f.size(i, s.config.SliceSize))
	})
	s.resend.measure(rtt)
	if f.left == 0 && blown > 0 {
		s.finish()
	}
	return blown > 0
}

// finish removes finished chunks from flight, and puts waiting chunks in flight instead.
func (s *Sender) finish() {
	for s.flights.Len() > 0 && s.flights.At(s.flights.Oldest).left == 0 {
		f := s.flights.At(s.flights.Oldest)
		s.stats.Chunks++
		s.stats.ChunkBytes += uint64(len(f.data))
		f.data = nil
		s.flights.Oldest++
		s.bursting, s.pause = false, 0
	}
	s.launch()
	if s.Done() {
		s.resend.heard()
	}
}
