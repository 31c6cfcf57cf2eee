package sealed

import (
	"fmt"
	"slices"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Receive opens and handles a packet that arrived at the time at. It returns an error if the
// packet makes the session close, either because it violates the protocol or because too many
// packets couldn't be opened. Other useless packets are dropped and counted.
func (s *Session) Receive(at time.Time, packet []byte) error { return s.handle(at, s.open(packet)) }

// open decrypts a packet in place. The caller doesn't need the lock, but open must not run
// concurrently with handle.
func (s *Session) open(packet []byte) openedPacket { return s.opener.open(packet) }

// handle is Receive for a packet that has been opened already.
func (s *Session) handle(at time.Time, p openedPacket) error {
	t := s.tick(at)
	if s.state == Closed {
		return nil
	}
	expected := s.opener.window.Next
	why := s.opener.accept(p)
	if why != dropNone {
		return s.countDrop(why)
	}
	s.liveness.packetReceived(t)
	s.stats.Received++
	s.stats.ReceivedBytes += uint64(p.size)

	want, err := s.consume(t, p.frames)
	if err != nil {
		s.closeWith(err)
		return err
	}
	if want > askNever && p.number > expected {
		// There's a gap, so packets may have been lost. Tell the peer at once (RFC 9000, section
		// 13.2.1).
		want = askNow
	}
	s.reporter.note(t, at.Sub(s.epoch), p.number, want)
	if p.number+1 < s.opener.window.Next {
		s.reporter.noteLate(p.number)
	}

	if s.stats.Received == 1 && s.state == Opening {
		// The peer is ready now, but earlier probes may have reached it too early. Don't wait for
		// the probe timeout to send the next.
		s.liveness.probeNow(t)
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
	s.closeWith(&Error{Reason: fmt.Sprintf("failed to decrypt %d packets", uint64(maxForged))})
	return s.err
}

// consume handles a packet's frames and returns how soon they want feedback. An error means
// that the peer violated the protocol.
func (s *Session) consume(t time.Duration, frames []byte) (want urgency, err error) {
	f := s.frame
	payloads := 0
	hadReport := false
	for n := 1; len(frames) > 0; n++ {
		if n > maxFrames {
			return askNever, violation("packet has more than %d frames", maxFrames)
		}
		frames, err = f.consume(frames)
		if err != nil {
			return askNever, violation("%v", err)
		}
		switch f.kind {
		case framePing:
			want = askNow
		case frameTrain:
			want = max(want, askSoon)
			if f.trainLeft == 0 {
				want = askNow // the peer is waiting for the result of its train
			}
		case frameData, framePlay:
			payloads++
			if payloads > maxPayloads {
				return askNever, violation("packet has more than %d payloads", maxPayloads)
			}
			want = max(want, askShared)
			if f.kind == frameData {
				want = max(want, askSoon)
			}
			s.source.Receive(s.time(t), f.payload)
			f.payload = nil // don't keep the inbox's memory alive
		case frameFeedback:
			if hadReport {
				// Each report makes us walk over the records, so we accept only one per packet.
				return askNever, violation("packet has more than one feedback frame")
			}
			hadReport = true
			if err := s.receiveReport(t, &f.report); err != nil {
				return askNever, err
			}
		}
	}
	return want, nil
}

// receiveReport updates the fates of the packets that the peer reports. An error means that the
// peer violated the protocol.
func (s *Session) receiveReport(t time.Duration, rp *report) error {
	largest := recovery.Number(s.records.Next, uint64(rp.largest), 32)
	if largest >= s.records.Next {
		return violation("ack for packet %d, which was not sent; the next number is %d", largest, s.records.Next)
	}
	var buf [maxSpans]span
	spans, err := rp.appendSpans(buf[:0], largest)
	if err != nil {
		return err
	}
	s.peerClock = unwrapClock(s.peerClock, rp.clock)
	rp.clock = s.peerClock
	s.arrivals = rp.arrivals(s.arrivals, spans, s.loss.Largest)
	s.control.AckDelay(s.ackDelay(rp))

	anyElicited := false
	for _, sp := range slices.Backward(spans) { // oldest first
		elicited, err := s.ackSpan(t, rp, sp)
		if err != nil {
			return err
		}
		anyElicited = anyElicited || elicited
	}
	if anyElicited {
		// This clears liveness.ptos, which sampleRTT needs, so do it after ackSpan.
		s.ackArrived(t)
	}
	if anyElicited || largest >= s.loss.Largest {
		s.loss.Largest = max(s.loss.Largest, largest+1)
		s.detectLosses(t)
		s.updateController(s.time(t))
	}
	s.records.forget(t)
	return nil
}

// ackDelay returns how long the peer delayed a report so that it could piggyback on play. The
// result is zero if the delay was no longer than it may be for bulk.
func (s *Session) ackDelay(rp *report) time.Duration {
	if rp.delay <= s.reporter.maxDelay {
		return 0
	}
	return min(rp.delay, s.config.PlayDelay)
}

// ackSpan acks the packets of a span. It must be called for the spans of a report in ascending
// order. elicited is true if it's the first ack of some packet that asked for one.
//
// A peer may ack the same packets over and over, so ackSpan skips whole runs of packets that
// were acked before. Otherwise every such report would make us walk over all records.
func (s *Session) ackSpan(t time.Duration, rp *report, sp span) (elicited bool, err error) {
	for n := max(sp.low, s.records.Oldest); n < sp.high; {
		r := s.records.At(n)
		next := n + 1
		switch r.fate {
		case acked:
			next = max(next, min(r.ackedEnd, sp.high))
		case skipped:
			return false, violation("ack for packet %d, whose number was skipped", n)
		default:
			var rtt time.Duration
			at := s.takeArrival(n)
			if r.fate == inFlight && n >= s.mtu.pathStart {
				// Packets that were declared lost, or that were sent on the previous path, say
				// nothing about the round trip.
				rtt = s.sampleRTT(t, r, rp, at)
			}
			if s.ack(t, n, at, rtt) {
				elicited = true
			}
		}
		r.ackedEnd = max(r.ackedEnd, sp.high)
		n = next
	}
	return elicited, nil
}

// takeArrival returns when packet n arrived, or 0 if the report doesn't tell. It drops the
// arrivals of smaller numbers from s.arrivals, so n must increase from call to call.
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

// sampleRTT measures a round trip from the ack of a packet, and returns it without the time by
// which the peer delayed the ack. The result is 0 if the packet is paced, because the controller
// measures those itself, or if at is 0.
//
// An unpaced packet may be a probe, for example. Unless its ack ends an outage, the controller uses
// the sample only as a guess until a paced packet is acked.
func (s *Session) sampleRTT(t time.Duration, r *record, rp *report, at time.Duration) time.Duration {
	s.loss.latestRTT = t - r.sent
	if r.paced || at == 0 {
		return 0
	}
	if s.liveness.ptos > 0 {
		// The outage is over. Paced packets that were sent before it may be acked now as well,
		// but their age isn't a round trip, so the controller needs this sample.
		s.control.RoundTrip(t - r.sent)
	}

	// Bound both parts of the delay, because an absurd peer clock would make the sum overflow.
	delay := min(max(rp.largestArrival()-at, 0), maxReportDelay)
	delay = min(delay+rp.delay, maxReportDelay)
	s.rttGuess = max(t-r.sent-delay, time.Microsecond)
	s.control.Guess(s.rttGuess)
	s.reporter.returnPath.sample(s.rttGuess)
	return s.rttGuess
}
