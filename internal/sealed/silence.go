package sealed

import "time"

const (
	// silentPTOs is the number of probe timeouts without an ack after which a carrier is
	// silent. While bulk is in flight, silentTime must have passed as well (see
	// silentAfter).
	silentPTOs = 3
	silentTime = time.Second
	// stopTime is the time without an ack after which a carrier closes.
	stopTime = 10 * time.Second

	// unknownRTT is the assumed round trip if the owner does not know it:
	// kInitialRtt of RFC 9002, section 6.2.2.
	unknownRTT = 333 * time.Millisecond
)

// hearing holds the times of the peer's acks and packets, and of the packets that asked for
// acks.
type liveness struct {
	// When the last ack arrived or, if later, when a packet was sent while none was in
	// flight.
	lastAck      time.Duration
	lastAsked    time.Duration // when the last packet asking for an ack was sent
	lastReceived time.Duration // when the peer's last packet was received; 0 = none
	longestGap   time.Duration // longest recent time between two of the peer's packets, at most silentTime
	probesDue    int           // number of probes to send now, whatever the pacer allows
	ptos         int           // consecutive probe timeouts without an ack
	// The last packet that asked for an ack has only play, so the peer may delay the ack.
	ackMayWait bool
	other      otherCarrier // shows whether the whole path or only this carrier is silent
}

// ack records an ack at t.
func (h *liveness) ackReceived(t time.Duration) {
	h.lastAck = t
	h.ptos = 0
	h.other = otherCarrier{}
}

// ask records that a packet asking for an ack was sent at t. mayDelay is whether the peer
// may delay the ack. If no packet was in flight before (empty), the time without an ack
// counts from t.
func (h *liveness) ackAsked(t time.Duration, mayDelay, empty bool) {
	if empty {
		h.lastAck = t
	}
	h.lastAsked = t
	h.ackMayWait = mayDelay
}

// miss is called when an ack did not arrive in time, so a probe must be sent.
//
// While the carrier opens, two probes are sent, as RFC 9002, section 6.2.4, allows. On a
// path that loses a tenth of the packets each way, one in five single probes gets no
// answer, and the next wait is up to a second.
func (h *liveness) ackMissed(opening bool) {
	h.probesDue = 1
	if opening {
		h.probesDue = 2
	}
	h.ptos++
}

// receive records that a packet was received at t. Each packet lowers gap by only a
// sixteenth. It therefore still shows the time between ticks if every tick sends a burst.
func (h *liveness) packetReceived(t time.Duration) {
	if h.lastReceived > 0 {
		h.longestGap = max(h.longestGap-h.longestGap/16, min(t-h.lastReceived, silentTime))
	}
	h.lastReceived = t
}

// overdueAt returns when a peer that has sent packets should have been heard again. If it
// is not heard by then, our own address may have changed, which the peer learns only from
// QUIC's packets. ok is false if the peer sends so rarely that its silence means nothing.
func (h *liveness) overdueAt(pto time.Duration) (time.Duration, bool) {
	wait := max(pto, 2*h.longestGap)
	return h.lastReceived + wait, h.lastReceived > 0 && wait < silentTime
}

// otherCarrier watches the connection's other carrier while an ack for this one is late.
type otherCarrier struct {
	watching bool
	packets  uint64        // packets that it had received when the watch began
	heardAt  time.Duration // when it was first seen to have received more; 0 = not yet
	lookAt   time.Duration // when to look again
}

// watch records the number of packets that the other carrier has received at t. The next
// look is half of patience later.
func (o *otherCarrier) watch(t time.Duration, packets uint64, patience time.Duration) {
	switch {
	case !o.watching:
		*o = otherCarrier{watching: true, packets: packets}
	case o.heardAt == 0 && packets > o.packets:
		o.heardAt = t
	}
	o.lookAt = t + patience/2
}

// until returns the time before which this carrier does not count as silent.
//
// When the path works again, either carrier may be heard first, so this one gets two more
// probe timeouts after the other was heard. While the other is silent as well, this one
// does not count as silent before the next look.
func (o *otherCarrier) notSilentBefore(patience time.Duration) time.Duration {
	if o.heardAt > 0 {
		return o.heardAt + 2*patience
	}
	return o.lookAt
}

// hear records an ack at t, which opens the carrier.
func (s *Session) ackArrived(t time.Duration) {
	s.liveness.ackReceived(t)
	if s.state == Opening || s.state == Silent {
		s.state = Open
	}
}

// waiting reports whether the session waits for an ack.
func (s *Session) awaitsAck() bool {
	return s.records.packetsInFlight > 0 || s.state == Opening || s.state == Silent
}

// rtt returns the smoothed round trip, or guess if none was measured.
func (s *Session) rtt() time.Duration {
	if _, smoothed, _ := s.control.RTT(); smoothed > 0 {
		return smoothed
	}
	return s.rttGuess
}

// pto returns the probe timeout (RFC 9002, section 6.2.1).
func (s *Session) pto() time.Duration {
	if _, smoothed, _ := s.control.RTT(); smoothed > 0 {
		return s.control.PTO()
	}
	// The variance is at first half the round trip (RFC 9002, section 5.3), and counts four
	// times.
	return 3*s.rttGuess + maxReportDelay
}

// probeAfter returns how long the session waits for an ack before it sends a probe or has
// QUIC send a ping. That includes the peer's delay of an ack of play.
//
// It bounds the probe timeout, which one late ack may make seconds long. Without the bound,
// a silent carrier would end before it had sent a probe.
func (s *Session) probeAfter() time.Duration {
	wait := min(s.pto(), max(silentTime, 2*s.rtt()))
	if s.liveness.ackMayWait {
		wait += s.config.PlayDelay
	}
	return wait
}

// ptoAt returns when the next probe is due. While the carrier opens, the wait doubles with
// each probe, because the peer may not be ready to receive.
func (s *Session) ptoAt() (time.Duration, bool) {
	if !s.started || s.liveness.probesDue > 0 || !s.awaitsAck() {
		return 0, false
	}
	wait := s.probeAfter()
	if s.state == Opening {
		wait <<= min(s.liveness.ptos, 4)
		wait = min(wait, silentTime)
	}
	return s.liveness.lastAsked + wait, true
}

// silentAt returns when the carrier becomes silent if no ack arrives. If it is already
// silent, silentAt returns when it ends. ok is false if the session waits for no ack.
func (s *Session) silentAt() (time.Duration, bool) {
	switch {
	case !s.started || !s.awaitsAck():
		return 0, false
	case s.state == Silent:
		return s.liveness.lastAck + stopTime, true
	}
	return max(s.liveness.lastAck+s.silentAfter(), s.liveness.other.notSilentBefore(s.boundedPTO())), true
}

// silentAfter returns the time without an ack after which the carrier is silent.
//
// With only play in flight that is silentPTOs, so that the other carrier takes over soon.
// With bulk, while opening, and without another carrier it is at least silentTime, because
// silentPTOs are only 80 ms on a short path.
func (s *Session) silentAfter() time.Duration {
	if s.config.Other != nil && s.state == Open && s.records.playInFlight == s.records.bytesInFlight {
		return silentPTOs * s.boundedPTO()
	}
	return max(silentTime, silentPTOs*s.boundedPTO())
}

// watchAt returns when to look at the other carrier. ok is false if the session waits for
// no ack or there is no other carrier.
func (s *Session) watchAt() (at time.Duration, ok bool) {
	at = max(s.liveness.lastAck+s.boundedPTO(), s.liveness.other.lookAt)
	return at, s.config.Other != nil && s.state == Open && s.awaitsAck()
}

// patience returns the probe timeout with a limit on its variance. Without the limit, after
// one late ack, play would wait for seconds in the next outage although QUIC could carry
// it.
func (s *Session) boundedPTO() time.Duration {
	_, smoothed, _ := s.control.RTT()
	if smoothed == 0 {
		return s.pto()
	}
	return min(s.pto(), smoothed*3/2+maxReportDelay+s.config.PlayDelay)
}

// checkHearing runs the timers for silence and probes.
func (s *Session) checkLiveness(t time.Duration) {
	if at, ok := s.watchAt(); ok && t >= at {
		s.liveness.other.watch(t, s.config.Other(), s.boundedPTO())
	}
	at, ok := s.silentAt()
	switch {
	case !ok || at > t:
	case s.state == Silent:
		s.closeWith(&Error{Reason: "no ack for " + stopTime.String()})
	default:
		s.state = Silent
		s.abandonInFlight(t)
	}
	if at, ok := s.ptoAt(); ok && at <= t {
		s.liveness.ackMissed(s.state == Opening)
	}
}

// abandon declares all packets in flight lost, so that the source sends their payloads over
// the other carrier.
func (s *Session) abandonInFlight(t time.Duration) {
	for n, ok := s.records.firstInFlight(); ok; n, ok = s.records.firstInFlight() {
		s.lose(t, n, abandoned)
	}
	s.updateController(s.time(t))
}
