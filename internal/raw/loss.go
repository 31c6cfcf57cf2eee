package raw

import "time"

const (
	packetThreshold = 3 // RFC 9002: kPacketThreshold
	minGranularity  = time.Millisecond
)

// loss decides which packets are lost (RFC 9002, section 6.1). Silence is another matter, see hearing.
type loss struct {
	reordered bool          // a loss was spurious: the packet threshold is off
	slack     time.Duration // time threshold is RTT * (1 + slack/8); 1, 2, 4, 8
	at        time.Duration // when the next packet counts as lost by time, 0 = none
	largest   uint64        // one above the largest acked
	rtt       time.Duration // of the newest packet acked, before the controller has learnt of it
}

// delay is how long after a later packet was acked an earlier one is given up.
func (s *Session) lossDelay() time.Duration {
	latest, smoothed, _ := s.control.RTT()
	rtt := max(latest, smoothed, s.loss.rtt)
	if rtt == 0 {
		rtt = s.guess
	}
	return max(rtt+rtt*s.loss.slack/8, minGranularity)
}

// detectLosses finds the packets that later ones overtook.
func (s *Session) detectLosses(t time.Duration) {
	s.loss.at = 0
	first, ok := s.records.firstFlying()
	if !ok {
		return
	}
	delay := s.lossDelay()
	for n := first; n < s.loss.largest; n++ {
		r := s.records.at(n)
		if r.fate != flying {
			continue
		}
		switch due := r.sent + delay; {
		case due <= t, !s.loss.reordered && s.loss.largest-1-n >= packetThreshold:
			s.lose(t, r, lost)
		case s.loss.at == 0 || due < s.loss.at:
			s.loss.at = due
		}
	}
}

// lose gives the payloads of r back. The record stays, for the packet may only be late.
func (s *Session) lose(t time.Duration, r *record, f fate) {
	s.records.land(r, f)
	r.until = t + silentPTOs*s.pto()
	s.stats.Lost++
	if r.paced {
		s.control.Lost(s.time(t), r.sample, int(r.size))
	}
	if r.train {
		s.train.decide(nil, 0)
	}
	for _, token := range r.tokens[:r.payloads] {
		s.source.Lost(s.time(t), token)
		s.quiet = false
	}
}

// peerTime returns a time of the peer's clock as one of which only differences to its like mean anything; zero for zero.
func peerTime(at time.Duration) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, 0).Add(at)
}

// ack takes the news that the packet of r arrived; at is when by the peer's clock, 0 = unknown.
func (s *Session) ack(t time.Duration, r *record, at time.Duration) (news bool) {
	was := r.fate
	switch was {
	case flying:
		s.records.land(r, acked)
	case lost, abandoned, silent:
		r.fate = acked
	default:
		return false
	}
	if was == lost {
		s.spurious()
	}
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
		s.quiet = false
	}
	return was != silent
}

// spurious learns from a lost packet that arrived: reordering is wider than the thresholds allow.
func (s *Session) spurious() {
	s.stats.Spurious++
	s.loss.reordered = true
	s.loss.slack = min(2*s.loss.slack, 8)
}
