package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// A lossDetector detects packets that were lost while later ones were acked. If no later packet
// is acked either, the livenessMonitor takes over.
type lossDetector struct {
	recovery.Losses
	latestRTT time.Duration // of the newest acked packet, which the controller may not know yet
}

// dueAt returns when the next packet will count as lost unless it's acked. ok is false if there
// is none.
func (l *lossDetector) dueAt() (at time.Duration, ok bool) { return l.Next, l.Next > 0 }

// detectLosses declares packets lost (RFC 9002, section 6.1). It is called after the acks of a
// report, and at the time returned by loss.dueAt.
func (s *Session) detectLosses(t time.Duration) {
	latest, smoothed, _ := s.control.RTT()
	rtt := max(latest, smoothed, s.loss.latestRTT)
	if rtt == 0 {
		rtt = s.rttGuess
	}
	s.loss.Begin(t, rtt)
	n, ok := s.records.findFirstInFlight()
	for ; ok && n < s.loss.Largest; n++ {
		r := s.records.At(n)
		if r.fate != inFlight {
			continue
		}
		if !s.loss.Check(t, n, r.sent) {
			// All packets from here on were sent even later, so they aren't lost either.
			break
		}
		s.lose(t, n, lost)
	}

	// What follows depends on all acks and losses so far.
	s.mtu.checkBlackHole(t, s.records.Next)
	s.updateTrain()
}

// updateTrain passes on the train's measurement once the train has finished. It also starts the
// train over if it failed, or starts a full train after a thin one.
func (s *Session) updateTrain() {
	if s.state == Open {
		s.train.repeat(s.records.Next)
	}
	result, ok := s.train.takeResult()
	if !ok {
		return
	}
	s.control.TrainMeasured(result)
	s.control.TrainCounts(trainPackets-s.train.delivered, s.train.delivered)
	s.train.followUp(s.records.Next)
}

// lose declares packet n lost and tells the source about its payloads. f is lost or abandoned.
//
// We keep the record, because the packet may only be late. It expires when it would have
// expired anyway, so it isn't dropped before the records of skipped numbers nearby. A peer that
// acks all of these numbers without having received them thus gives itself away.
func (s *Session) lose(t time.Duration, n uint64, f fate) {
	r := s.records.At(n)
	s.records.resolve(r, f)
	s.mtu.lost(t, n, r)
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

// ack records that packet n arrived at the time at on the peer's clock. at is 0 if unknown. rtt is
// the packet's sample from sampleRTT. elicited is true if this is the first ack of a packet that
// asked for one.
func (s *Session) ack(t time.Duration, n uint64, at, rtt time.Duration) (elicited bool) {
	r := s.records.At(n)
	previous := r.fate
	if previous == acked || previous == skipped {
		return false
	}
	s.records.resolve(r, acked)
	if previous == lost {
		s.undoLoss(t, n, r)
	}
	s.mtu.acked(n, r)
	s.reporter.peerKnows(r.knownBelow)

	s.stats.Acked++
	if r.paced {
		s.control.Acked(s.time(t), r.sample, int(r.size), peerTime(at))
	}
	if r.train && previous == inFlight {
		s.train.acked(r, n, at, rtt)
	}
	for _, token := range r.tokens[:r.payloads] {
		s.source.Acked(s.time(t), token)
	}
	return previous != ackOptional
}

// undoLoss is called when packet n is acked although we had declared it lost.
func (s *Session) undoLoss(t time.Duration, n uint64, r *record) {
	s.stats.Spurious++
	s.loss.Spurious(t, t-r.sent)
	if r.paced {
		s.control.Spurious(r.sample)
	}
	if !r.train {
		return
	}
	if result, ok := s.train.addLate(r, n); ok {
		s.control.TrainMeasured(result)
		s.control.TrainLate()
	}
}

// peerTime converts a time on the peer's clock to a time.Time, or to the zero Time if it's 0.
// Only the differences between such times mean anything.
func peerTime(at time.Duration) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, 0).Add(at)
}
