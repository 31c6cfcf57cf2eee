package sealed

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Receive opens and handles a packet that arrived at the time at. It returns the error of
// take.
func (s *Session) Receive(at time.Time, packet []byte) error { return s.handle(at, s.open(packet)) }

// open decrypts a packet in place. It needs no lock, but must be called on the goroutine
// that calls take.
func (s *Session) open(packet []byte) openedPacket { return s.opener.open(packet) }

// take handles a packet that arrived at the time at. An error means that the session has
// closed, because the packet violated the protocol or too many packets did not open. Any
// other packet that cannot be used is dropped and counted.
func (s *Session) handle(at time.Time, p openedPacket) error {
	t := s.tick(at)
	if s.state == Closed {
		return nil
	}
	before := s.opener.window.Next
	if why := s.opener.accept(p); why != dropNone {
		return s.countDrop(why)
	}
	s.liveness.packetReceived(t)
	s.stats.Received++
	s.stats.ReceivedBytes += uint64(p.size)
	asks, err := s.consume(t, p.frames)
	if err != nil {
		s.closeWith(err)
		return err
	}
	if asks > askNever && p.number > before { // a gap (RFC 9000, section 13.2.1)
		asks = askNow
	}
	s.reporter.note(t, at.Sub(s.epoch), p.number, asks)
	if p.number+1 < s.opener.window.Next {
		s.reporter.noteLate(p.number)
	}
	if s.stats.Received == 1 && s.state == Opening {
		// The peer is ready now, and earlier probes may have been too early, so send one at
		// once.
		s.liveness.probesDue = 1
		s.liveness.lastAck = t
	}
	s.Wake()
	return nil
}

// dropped counts a packet that was dropped. Once maxForged packets have not opened, it
// closes the session and returns the error.
func (s *Session) countDrop(why drop) error {
	s.stats.Drops[why]++
	if s.opener.forged < maxForged {
		return nil
	}
	s.closeWith(&Error{Reason: "2^36 packets did not open"})
	return s.err
}

// consume handles the frames of a packet and returns how soon they ask for feedback. An
// error is a violation.
func (s *Session) consume(t time.Duration, frames []byte) (asks urgency, err error) {
	f := s.frame
	payloads := 0
	hadFeedback := false
	for n := 1; len(frames) > 0; n++ {
		if n > maxFrames {
			return askNever, violation("more than 16 frames in a packet")
		}
		if frames, err = f.consume(frames); err != nil {
			return askNever, violation(err.Error())
		}
		switch f.kind {
		case framePing:
			asks = askNow
		case frameTrain:
			asks = max(asks, askSoon)
			if f.trainLeft == 0 {
				asks = askNow
			}
		case frameData, framePlay:
			payloads++
			if payloads > maxPayloads {
				return askNever, violation("more than 8 payloads in a packet")
			}
			asks = max(asks, askShared)
			if f.kind == frameData {
				asks = max(asks, askSoon)
			}
			s.source.Receive(s.time(t), f.payload)
			f.payload = nil // so that it does not keep the inbox's memory alive
		case frameFeedback:
			if hadFeedback { // each feedback costs a walk over the records
				return askNever, violation("two feedbacks in a packet")
			}
			hadFeedback = true
			if err := s.receiveReport(t, &f.report); err != nil {
				return askNever, err
			}
		}
	}
	return asks, nil
}

// receiveFeedback sets the fates of packets according to the peer's feedback. An error is a
// violation.
func (s *Session) receiveReport(t time.Duration, f *report) error {
	largest := recovery.Number(s.records.Next, uint64(f.largest), 32)
	if largest >= s.records.Next {
		return violation("ack for a packet that was not sent")
	}
	var spans [maxRuns/2 + 1]span
	n, err := f.spans(largest, &spans)
	if err != nil {
		return err
	}
	s.peerClock = unwrapClock(s.peerClock, f.clock)
	f.clock = s.peerClock
	s.arrivals = f.arrivals(spans[:n], s.loss.Largest, s.arrivals[:0])
	news := false
	s.control.AckDelay(s.ackDelay(f))
	for i := range n { // oldest first
		fresh, err := s.ackSpan(t, f, spans[n-1-i])
		if err != nil {
			return err
		}
		news = news || fresh
	}
	if news { // after ackSpan, because sampleRTT needs hearing.ptos, which hear clears
		s.ackArrived(t)
	}
	if news || largest >= s.loss.Largest {
		s.loss.Largest = max(s.loss.Largest, largest+1)
		s.detectLosses(t)
		s.updateController(s.time(t))
	}
	s.records.forget(t)
	return nil
}

// ackDelay returns how long the peer delayed f so that a packet with play could carry it.
// It returns 0 if f was delayed no longer than for bulk.
func (s *Session) ackDelay(f *report) time.Duration {
	if f.delay <= s.reporter.maxDelay {
		return 0
	}
	return min(f.delay, s.config.PlayDelay)
}

// ackSpan acks the packets of a range. The ranges of a feedback must be passed in rising
// order. It skips runs that are already acked. Otherwise a peer that repeats itself could
// make this end walk over all records for every packet.
func (s *Session) ackSpan(t time.Duration, f *report, sp span) (news bool, err error) {
	for n := max(sp.low, s.records.Oldest); n < sp.high; {
		r := s.records.At(n)
		next := n + 1
		switch r.fate {
		case acked:
			next = max(next, min(r.ackedEnd, sp.high))
		case skipped:
			return false, violation("ack for a packet number that was skipped")
		default:
			at := s.takeArrival(n)
			// Skip packets that were declared lost before or sent on the previous path.
			if r.fate == inFlight && n >= s.mtu.pathStart {
				s.loss.latestRTT = t - r.sent
				s.sampleRTT(t, r, f, at)
			}
			news = s.ack(t, n, at) || news
		}
		r.ackedEnd = max(r.ackedEnd, sp.high)
		n = next
	}
	return news, nil
}

// takeArrival returns the arrival of packet n (0 = unknown) and removes those of smaller
// numbers from s.arrivals.
func (s *Session) takeArrival(n uint64) time.Duration {
	list := s.arrivals
	for len(list) > 0 && list[len(list)-1].number < n {
		list = list[:len(list)-1]
	}
	s.arrivals = list
	if len(list) == 0 || list[len(list)-1].number != n {
		return 0
	}
	return list[len(list)-1].at
}

// sampleRTT measures a round trip by the ack of a packet that the controller has not paced,
// such as a probe. The controller uses it as a guess until it has measured a round trip
// itself, and as a sample if the ack ends an outage.
func (s *Session) sampleRTT(t time.Duration, r *record, f *report, at time.Duration) {
	if r.paced || at == 0 {
		return
	}
	if s.liveness.ptos > 0 {
		// This is the end of an outage. Paced packets from before it are acked now as well,
		// but their age is not a round trip.
		s.control.RoundTrip(t - r.sent)
	}
	// Bound both times, because an absurd clock of the peer would make the sum overflow.
	held := min(max(f.largestArrival()-at, 0), maxReportDelay)
	held = min(held+f.delay, maxReportDelay)
	s.rttGuess = max(t-r.sent-held, time.Microsecond)
	s.control.Guess(s.rttGuess)
	s.reporter.trip(s.rttGuess)
}
