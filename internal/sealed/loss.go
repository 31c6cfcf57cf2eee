package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// loss decides which packets are lost because later ones arrived. The type hearing handles
// packets without any later ack.
type loss struct {
	recovery.Losses
	latestRTT time.Duration // round trip of the newest acked packet, which the controller may not know yet
}

// detectLosses declares packets lost (RFC 9002, section 6.1). It is called after feedback
// and when the timer of loss is due.
func (s *Session) detectLosses(t time.Duration) {
	latest, smoothed, _ := s.control.RTT()
	rtt := max(latest, smoothed, s.loss.latestRTT)
	if rtt == 0 {
		rtt = s.rttGuess
	}
	s.loss.Begin(t, rtt)
	n, ok := s.records.firstInFlight()
	for ; ok && n < s.loss.Largest; n++ {
		r := s.records.At(n)
		if r.fate != inFlight {
			continue
		}
		if !s.loss.Lost(t, n, r.sent) {
			break // later packets were sent later, so they are not lost either
		}
		s.lose(t, n, lost)
	}
	s.mtu.checkBlackHole(t, s.records.Next)
	if s.state == Open {
		s.train.repeat(s.records.Next)
	}
	if shown, ok := s.train.takeResult(); ok {
		s.control.Train(shown)
		s.train.followUp(s.records.Next)
	}
}

// lose declares packet n lost and reports its payloads to the source. f, lost or abandoned,
// is its new fate: what became of the packet. The record stays, because the packet may only
// be late.
func (s *Session) lose(t time.Duration, n uint64, f fate) {
	r := s.records.At(n)
	s.records.resolve(r, f)
	s.mtu.lost(t, n, r)
	// The record of a lost packet keeps the until with which it was sent, and so do the
	// records of skipped numbers near it. None of them is dropped before the others, so a
	// forged ack that covers both includes a skipped number.
	//
	// The until of an abandoned packet may already be over.
	if f == abandoned {
		r.expires = t + silentPTOs*s.pto()
	}
	s.stats.Lost++
	if r.paced {
		s.control.Lost(s.time(t), r.sample, int(r.size))
	}
	if r.train {
		s.train.lost()
	}
	for _, token := range r.tokens[:r.payloads] {
		s.source.Lost(s.time(t), token)
		s.Wake()
	}
}

// peerTime converts a time by the peer's clock to a time.Time. It converts 0 to the zero
// Time. Only differences between the results are meaningful.
func peerTime(at time.Duration) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, 0).Add(at)
}

// ack records that packet n arrived at the time at by the peer's clock (0 = unknown). It
// reports whether this is the first ack of a packet that asked for one.
func (s *Session) ack(t time.Duration, n uint64, at time.Duration) (news bool) {
	r := s.records.At(n)
	was := r.fate
	switch was {
	case inFlight:
		s.records.resolve(r, acked)
	case ackOptional:
		s.records.ackOptional--
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
	s.reporter.knownBelow = max(s.reporter.knownBelow, r.knownBelow)
	s.stats.Acked++
	if r.paced {
		s.control.Acked(s.time(t), r.sample, int(r.size), peerTime(at))
	}
	if r.train && was == inFlight {
		s.train.acked(r, n, at, s.rttGuess) // sampleRTT has just measured s.guess with this packet
	}
	if r.train && was == lost {
		if shown, ok := s.train.addLate(r, n); ok {
			s.control.Train(shown)
		}
	}
	for _, token := range r.tokens[:r.payloads] {
		s.source.Acked(s.time(t), token)
	}
	return was != ackOptional
}
