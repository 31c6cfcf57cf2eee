package chunk

import "time"

const (
	burstMax   = 256 << 10              // largest chunk; the article: "small chunks in the few 100s of k range"
	burstPause = 100 * time.Millisecond // pause after a burst; the article: "wait 100ms"
	burstIdle  = time.Second            // idle time before the next burst
)

// number returns the number of the chunk in flight with the given id. ok is false if there is none.
func (s *Sender) number(id uint16) (number uint64, ok bool) {
	number = s.flights.Oldest + uint64(id-uint16(s.flights.Oldest))
	return number, number < s.flights.Next
}

// launch moves waiting chunks into flight while Config.Pipeline allows more.
func (s *Sender) launch() {
	for s.queue.Len() > 0 && s.flights.Len() < s.config.Pipeline {
		s.flights.Push(1).reset(s.queue.Take(), s.config.SliceSize)
	}
}

// pick returns the slice to send now, or none. It's a slice of the oldest chunk that has one ready.
//
// If many chunks are in flight, nearly all of them are only waiting for acks. pick therefore
// examines them only if a slice was reported lost or may be due to be resent.
func (s *Sender) pick() (number uint64, index int) {
	mayResend := s.lostSlices > 0 || s.oldestSent <= s.clock.now-s.resend.delay()
	if !mayResend {
		return s.pickUnsent()
	}
	oldestSent := never
	for n := s.flights.Oldest; n < s.flights.Next; n++ {
		f := s.flights.At(n)
		i := f.ready(&s.resend, s.clock.now)
		if i != none && f.slices[i].state != unsent {
			return n, i
		}
		oldestSent = min(oldestSent, f.oldestSent())
		if i != none {
			// The slice was never sent, so no later chunk has been started, and the loop has seen
			// all slices that are waiting for an ack.
			s.oldestSent = oldestSent
			return n, i
		}
	}
	s.oldestSent = oldestSent
	return 0, none
}

// pickUnsent returns the first slice that was never sent, or none.
func (s *Sender) pickUnsent() (number uint64, index int) {
	for s.unsentFrom = max(s.unsentFrom, s.flights.Oldest); s.unsentFrom < s.flights.Next; s.unsentFrom++ {
		if i := s.flights.At(s.unsentFrom).unsent(); i != none {
			return s.unsentFrom, i
		}
	}
	return 0, none
}

// pickNext returns the slice that becomes due first, and when. It may only be called if no slice is
// ready and some chunk is unfinished.
func (s *Sender) pickNext() (number uint64, index int, due time.Duration) {
	due = never
	for n := s.flights.Oldest; n < s.flights.Next; n++ {
		if at := s.flights.At(n).due(&s.resend); at < due {
			number, due = n, at
		}
	}
	return number, int(s.flights.At(number).waiting.head), due
}

// holdUntil returns the time before which no slice may be sent, because of the pause after a burst
// or, if the path is silent, because the next probe isn't due yet.
func (s *Sender) holdUntil() time.Duration {
	if s.resend.silent(s.clock.now) {
		return max(s.pause, s.resend.nextProbe())
	}
	return s.pause
}

// inBurst reports whether the next slice of f begins a burst or belongs to one, and therefore takes
// nothing out of the budget.
func (s *Sender) inBurst(f *flight) bool {
	if !s.config.Burst || f != s.flights.At(s.flights.Oldest) || f.unsent() == none {
		return false
	}
	if s.bursting {
		return true
	}
	idle := s.resend.lastSent == never || s.clock.now-s.resend.lastSent >= burstIdle
	return idle && !f.begun && len(f.data) <= burstMax
}

// recordSent records that slice i of f is sent now, for the first time or again.
func (s *Sender) recordSent(f *flight, i int) {
	size := f.size(i, s.config.SliceSize)
	s.stats.Slices++
	s.stats.SliceBytes += uint64(size)
	switch f.slices[i].state {
	case lost:
		s.lostSlices--
		s.stats.Hints++
		s.stats.Resent++
	case waiting:
		s.stats.Resent++
		s.resend.onResend(&f.slices[i], s.clock.now)
	}
	s.bursting = s.inBurst(f)
	f.send(i, s.clock.now, s.stats.Slices)
	s.resend.onSend(s.clock.now)
	s.oldestSent = min(s.oldestSent, s.clock.now)
	if s.bursting && f.unsent() == none {
		s.bursting = false
		s.pause = s.clock.now + burstPause
	}
}

// acknowledge marks the slices of set as acked in a chunk in flight. isNew is true if one of them
// wasn't acked before.
func (s *Sender) acknowledge(number uint64, set Bits) (isNew bool) {
	f := s.flights.At(number)
	known := firstBits(f.count) // the ack may have bits for slices that don't exist
	for i := range set {
		set[i] &= known[i]
	}
	rtt := sample{never, never}
	newly := f.ack(set, func(i int) {
		if f.slices[i].state == lost {
			s.lostSlices--
		}
		s.resend.onSliceAcked(&f.slices[i], s.clock.now, f.left, &rtt)
		s.stats.AckedBytes += uint64(f.size(i, s.config.SliceSize))
	})
	s.resend.measure(rtt)
	if f.left == 0 && newly > 0 {
		s.finish()
	}
	return newly > 0
}

// finish removes finished chunks from the front of flights and launches waiting ones in their
// place. Finished chunks behind an unfinished one stay.
func (s *Sender) finish() {
	for s.flights.Len() > 0 && s.flights.At(s.flights.Oldest).left == 0 {
		f := s.flights.At(s.flights.Oldest)
		s.stats.Chunks++
		s.stats.ChunkBytes += uint64(len(f.data))
		f.data = nil
		s.flights.Oldest++
		s.bursting = false
		s.pause = 0
	}
	s.launch()
	if s.Done() {
		s.resend.onAck()
	}
}
