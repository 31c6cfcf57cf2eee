package sealed

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Receive opens and handles a packet that arrived at the time at. It returns an error if the
// packet makes the session close, either because it violates the protocol or because too many
// packets couldn't be opened. Other useless packets are dropped and counted.
func (s *Session) Receive(at time.Time, packet []byte) error { return s.handle(at, s.open(packet)) }

// open decrypts a packet in place. It doesn't need the lock, but must be called on the
// goroutine that calls handle.
func (s *Session) open(packet []byte) openedPacket { return s.opener.open(packet) }

// handle is Receive for a packet that has been opened already.
func (s *Session) handle(at time.Time, p openedPacket) error {
	t := s.tick(at)
	if s.state == Closed {
		return nil
	}
	expected := s.opener.window.Next
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
	if asks > askNever && p.number > expected {
		// There's a gap, so some packets may be lost. Tell the peer at once (RFC 9000, section
		// 13.2.1).
		asks = askNow
	}
	s.reporter.note(t, at.Sub(s.epoch), p.number, asks)
	if p.number+1 < s.opener.window.Next {
		s.reporter.noteLate(p.number)
	}

	if s.stats.Received == 1 && s.state == Opening {
		// The peer is ready now, but earlier probes may have reached it too early. Rather than
		// wait for the probe timeout, send another probe at once.
		s.liveness.probesDue = 1
		s.liveness.lastAck = t
	}
	s.Wake()
	return nil
}

// countDrop counts a packet that was dropped. Once maxForged packets couldn't be opened, it
// closes the session and returns the error.
func (s *Session) countDrop(why drop) error {
	s.stats.Drops[why]++
	if s.opener.forged < maxForged {
		return nil
	}
	s.closeWith(&Error{Reason: "2^36 packets did not open"})
	return s.err
}

// consume handles a packet's frames and returns how soon they want feedback. An error means
// that the peer violated the protocol.
func (s *Session) consume(t time.Duration, frames []byte) (asks urgency, err error) {
	f := s.frame
	payloads := 0
	hadReport := false
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
				asks = askNow // the peer waits for the result of its train
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
			f.payload = nil // don't keep the inbox's memory alive
		case frameFeedback:
			if hadReport {
				// We accept only one report per packet, because each makes us walk over the
				// records.
				return askNever, violation("two feedbacks in a packet")
			}
			hadReport = true
			if err := s.receiveReport(t, &f.report); err != nil {
				return askNever, err
			}
		}
	}
	return asks, nil
}

// receiveReport updates the fates of the packets that the peer reports. An error means that the
// peer violated the protocol.
func (s *Session) receiveReport(t time.Duration, f *report) error {
	largest := recovery.Number(s.records.Next, uint64(f.largest), 32)
	if largest >= s.records.Next {
		return violation("ack for a packet that was not sent")
	}
	var buf [maxSpans]span
	spans, err := f.appendSpans(buf[:0], largest)
	if err != nil {
		return err
	}
	s.peerClock = unwrapClock(s.peerClock, f.clock)
	f.clock = s.peerClock
	s.arrivals = f.appendArrivals(s.arrivals[:0], spans, s.loss.Largest)
	s.control.AckDelay(s.ackDelay(f))

	anyNew := false
	for _, sp := range slices.Backward(spans) { // oldest first
		isNew, err := s.ackSpan(t, f, sp)
		if err != nil {
			return err
		}
		anyNew = anyNew || isNew
	}
	if anyNew {
		// Only do this now, because it clears liveness.ptos, which sampleRTT needs.
		s.ackArrived(t)
	}
	if anyNew || largest >= s.loss.Largest {
		s.loss.Largest = max(s.loss.Largest, largest+1)
		s.detectLosses(t)
		s.updateController(s.time(t))
	}
	s.records.forget(t)
	return nil
}

// ackDelay returns how long the peer held back a report so that it could piggyback on play. The
// result is zero unless the peer took longer than it would for bulk.
func (s *Session) ackDelay(f *report) time.Duration {
	if f.delay <= s.reporter.maxDelay {
		return 0
	}
	return min(f.delay, s.config.PlayDelay)
}

// ackSpan acks the packets of a span. It must be called for the spans of a report in ascending
// order. isNew is true if this is the first ack of a packet that asked for one.
//
// A peer may ack the same packets over and over, so we skip whole runs of packets that have
// been acked before. Otherwise we'd have to walk over all records for every such report.
func (s *Session) ackSpan(t time.Duration, f *report, sp span) (isNew bool, err error) {
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
			if r.fate == inFlight && n >= s.mtu.pathStart {
				// Packets that we had given up for lost, or that were sent on the previous
				// path, say nothing about the round trip.
				s.loss.latestRTT = t - r.sent
				s.sampleRTT(t, r, f, at)
			}
			isNew = s.ack(t, n, at) || isNew
		}
		r.ackedEnd = max(r.ackedEnd, sp.high)
		n = next
	}
	return isNew, nil
}

// takeArrival returns when packet n arrived, or 0 if the report doesn't say. It drops the
// arrivals of smaller numbers from s.arrivals, so n must rise from call to call.
func (s *Session) takeArrival(n uint64) time.Duration {
	list := s.arrivals // largest number first
	for len(list) > 0 && list[len(list)-1].number < n {
		list = list[:len(list)-1]
	}
	s.arrivals = list
	if len(list) == 0 || list[len(list)-1].number != n {
		return 0
	}
	return list[len(list)-1].at
}

// sampleRTT measures a round trip from the ack of an unpaced packet, such as a probe. The
// controller uses the sample only as a guess until a paced packet is acked, unless the
// ack ends an outage.
func (s *Session) sampleRTT(t time.Duration, r *record, f *report, at time.Duration) {
	if r.paced || at == 0 {
		return
	}
	if s.liveness.ptos > 0 {
		// An outage is over. Paced packets that were sent before it may be acked now as well,
		// but their age isn't a round trip, so the controller needs this sample.
		s.control.RoundTrip(t - r.sent)
	}

	// Subtract how long the peer held back the ack. Bound both parts, because an absurd peer
	// clock would make the sum overflow.
	held := min(max(f.largestArrival()-at, 0), maxReportDelay)
	held = min(held+f.delay, maxReportDelay)
	s.rttGuess = max(t-r.sent-held, time.Microsecond)
	s.control.Guess(s.rttGuess)
	s.reporter.returnPath.sample(s.rttGuess)
}
