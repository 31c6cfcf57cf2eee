package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// loss decides which packets later ones overtook. Silence is another matter, see hearing.
type loss struct {
	recovery.Losses
	rtt time.Duration // of the newest packet acked, before the controller has learnt of it
}

func (s *Session) detectLosses(t time.Duration) {
	latest, smoothed, _ := s.control.RTT()
	rtt := max(latest, smoothed, s.loss.rtt)
	if rtt == 0 {
		rtt = s.guess
	}
	s.loss.Begin(t, rtt)
	n, ok := s.records.firstFlying()
	for ; ok && n < s.loss.Largest; n++ {
		if r := s.records.At(n); r.fate == flying && s.loss.Lost(t, n, r.sent) {
			s.lose(t, n, lost)
		}
	}
	s.mtu.check(t, s.records.Next)
	if s.state == Open {
		s.train.repeat()
	}
	if bytes, span, even, ok := s.train.measured(); ok {
		s.control.Train(bytes, span, even)
	}
}

// lose gives the payloads of packet n back. The record stays, for the packet may only be late.
func (s *Session) lose(t time.Duration, n uint64, f fate) {
	r := s.records.At(n)
	s.records.land(r, f)
	s.mtu.lost(n, r)
	if f == abandoned { // else it stays as long as a number left out beside it, or an ack made up for both could be taken
		r.until = t + silentPTOs*s.pto()
	}
	s.stats.Lost++
	if r.paced {
		s.control.Lost(s.time(t), r.sample, int(r.size))
	}
	if r.train {
		s.train.decide(nil, 0)
	}
	for _, token := range r.tokens[:r.payloads] {
		s.source.Lost(s.time(t), token)
		s.Wake()
	}
}

// peerTime returns a time of the peer's clock as one of which only differences to its like mean anything; zero for zero.
func peerTime(at time.Duration) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, 0).Add(at)
}

// ack takes the news that packet n arrived; at is when by the peer's clock, 0 = unknown.
func (s *Session) ack(t time.Duration, n uint64, at time.Duration) (news bool) {
	r := s.records.At(n)
	was := r.fate
	switch was {
	case flying:
		s.records.land(r, acked)
	case silent:
		s.records.silent--
		r.fate = acked
	case lost, abandoned:
		r.fate = acked
	default:
		return false
	}
	if was == lost {
		s.stats.Spurious++
		s.loss.Spurious(t, t-r.sent)
		if r.paced {
			s.control.Spurious(r.sample)
		}
	}
	s.mtu.acked(n, r)
	s.report.floor = max(s.report.floor, r.covers)
	s.stats.Acked++
	if r.paced {
		s.control.Acked(s.time(t), r.sample, int(r.size), peerTime(at))
	}
	if r.train && was == flying {
		s.train.decide(r, at)
	}
	for _, token := range r.tokens[:r.payloads] {
		s.source.Acked(s.time(t), token)
		s.Wake()
	}
	return was != silent
}
