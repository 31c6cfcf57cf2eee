package sealed

import "time"

const (
	// silentPTOs is the number of probe timeouts (PTOs) without an ack after which a carrier is
	// silent. Usually silentTime must have passed as well (see silentAfter).
	silentPTOs = 3
	silentTime = time.Second
	// stopTime is the time without an ack after which a carrier closes.
	stopTime = 10 * time.Second

	// unknownRTT is the round trip that we assume if the owner doesn't know one. It is the
	// kInitialRtt of RFC 9002, section 6.2.2.
	unknownRTT = 333 * time.Millisecond

	// openingProbes is the number of probes that we send per probe timeout while the carrier
	// opens. On a path that loses 10 % of the packets each way, one in five single probes would
	// get no answer, and the next probe may be a second away. RFC 9002, section 6.2.4, allows two
	// probes.
	openingProbes = 2
	// maxBackoffs limits how often the wait for the next probe doubles while the carrier opens.
	// On a short path, we then still probe about twice a second.
	maxBackoffs = 4

	// longestGap decays by 1/gapDecay with each packet. That is slow enough for it to show the time
	// between two of the peer's ticks even if each tick sends several packets.
	gapDecay = 16
)

// A livenessMonitor keeps track of when we last heard from the peer, and when we asked it for
// an ack.
type livenessMonitor struct {
	// When the last ack arrived or, if later, when we sent a packet while none was in flight.
	lastAck    time.Duration
	lastAsked  time.Duration // when the last packet asking for an ack was sent
	ackMayWait bool          // that packet had only play, so the peer may delay its ack
	ptos       int           // consecutive probe timeouts without an ack
	probesDue  int           // probes to send now, without asking the pacer

	lastReceived time.Duration // when the peer's last packet arrived; 0 if none has
	longestGap   time.Duration // longest recent gap between two of its packets, up to silentTime

	other otherCarrier // shows whether the whole path is silent, or just this carrier
}

// ackAsked is called when a packet asking for an ack is sent. mayWait is true if the peer may
// delay the ack. If no packet was in flight before (wasIdle), the time without an ack starts now.
func (l *livenessMonitor) ackAsked(t time.Duration, mayWait, wasIdle bool) {
	if wasIdle {
		l.lastAck = t
	}
	l.lastAsked = t
	l.ackMayWait = mayWait
}

// probeNow requests a probe at once and restarts the time without an ack.
func (l *livenessMonitor) probeNow(t time.Duration) {
	l.lastAck = t
	l.probesDue = 1
}

// probeSent is called when a probe is sent.
func (l *livenessMonitor) probeSent() { l.probesDue-- }

// ackReceived is called when an ack arrives.
func (l *livenessMonitor) ackReceived(t time.Duration) {
	l.lastAck = t
	l.ptos = 0
	l.other = otherCarrier{}
}

// ackMissed is called when no ack has arrived for a probe timeout. It requests probes.
func (l *livenessMonitor) ackMissed(opening bool) {
	l.probesDue = 1
	if opening {
		l.probesDue = openingProbes
	}
	l.ptos++
}

// packetReceived is called for every packet that arrives.
func (l *livenessMonitor) packetReceived(t time.Duration) {
	if l.lastReceived > 0 {
		gap := min(t-l.lastReceived, silentTime)
		l.longestGap = max(l.longestGap-l.longestGap/gapDecay, gap)
	}
	l.lastReceived = t
}

// overdueAt returns when the peer's next packet is overdue. If it hasn't arrived at that time, our
// own address may have changed, which the peer learns only from QUIC's packets. ok is false if
// the peer sends so rarely that its silence means nothing.
func (l *livenessMonitor) overdueAt(pto time.Duration) (at time.Duration, ok bool) {
	wait := max(pto, 2*l.longestGap)
	return l.lastReceived + wait, l.lastReceived > 0 && wait < silentTime
}

// An otherCarrier watches the connection's other carrier while an ack for this one is late. The
// zero value watches nothing.
type otherCarrier struct {
	watching bool
	packets  uint64        // packets that it had received when we began to watch
	heardAt  time.Duration // when we first saw that it has received more; 0 if it hasn't
	checkAt  time.Duration // when to check again
}

// check records the number of packets that the other carrier has received by t. The next check
// is half a probe timeout later.
func (o *otherCarrier) check(t time.Duration, packets uint64, pto time.Duration) {
	switch {
	case !o.watching:
		*o = otherCarrier{watching: true, packets: packets}
	case o.heardAt == 0 && packets > o.packets:
		o.heardAt = t
	}
	o.checkAt = t + pto/2
}

// notSilentBefore returns a time before which this carrier mustn't count as silent.
func (o *otherCarrier) notSilentBefore(pto time.Duration) time.Duration {
	if o.heardAt > 0 {
		// The path works, but after an interruption either carrier may be heard first, so give
		// this one two more probe timeouts.
		return o.heardAt + 2*pto
	}
	return o.checkAt // so far, the other carrier is silent as well
}

// ackArrived is called when an ack arrives, which opens the carrier.
func (s *Session) ackArrived(t time.Duration) {
	s.liveness.ackReceived(t)
	if s.state == Opening || s.state == Silent {
		s.state = Open
	}
}

// checkLiveness runs the timers for the other carrier, for silence and for probes, in this order:
// what the other carrier has received decides whether this one is silent, and a carrier that
// becomes silent has to probe.
func (s *Session) checkLiveness(t time.Duration) {
	if at, ok := s.otherCheckAt(); ok && t >= at {
		s.liveness.other.check(t, s.config.Other(), s.boundedPTO())
	}
	if at, ok := s.silentAt(); ok && t >= at {
		if s.state == Silent {
			s.closeWith(&Error{Reason: "no ack for " + stopTime.String()})
		} else {
			s.state = Silent
			s.abandonInFlight(t)
		}
	}
	if at, ok := s.ptoAt(); ok && t >= at {
		s.liveness.ackMissed(s.state == Opening)
	}
}

// abandonInFlight declares all packets in flight lost, so that the source sends their payloads
// over the other carrier.
func (s *Session) abandonInFlight(t time.Duration) {
	for n, ok := s.records.findFirstInFlight(); ok; n, ok = s.records.findFirstInFlight() {
		// The packet may be so old that its record has expired already, but it may still be acked.
		s.records.At(n).expires = t + silentPTOs*s.pto()
		s.lose(t, n, abandoned)
	}
	s.updateController(s.time(t))
}

// awaitsAck reports whether the peer owes us an ack.
func (s *Session) awaitsAck() bool {
	return s.records.packetsInFlight > 0 || s.state == Opening || s.state == Silent
}

// ptoAt returns when the next probe is due. ok is false if no ack is awaited, or if a probe is
// about to be sent anyway.
func (s *Session) ptoAt() (at time.Duration, ok bool) {
	if !s.started || s.liveness.probesDue > 0 || !s.awaitsAck() {
		return 0, false
	}
	wait := s.probeAfter()
	if s.state == Opening {
		// Back off, because the peer may not be ready to receive yet.
		wait = min(wait<<min(s.liveness.ptos, maxBackoffs), silentTime)
	}
	return s.liveness.lastAsked + wait, true
}

// silentAt returns when the carrier becomes silent if no ack arrives or, if it is silent
// already, when it closes. ok is false if no ack is awaited.
func (s *Session) silentAt() (at time.Duration, ok bool) {
	switch {
	case !s.started || !s.awaitsAck():
		return 0, false
	case s.state == Silent:
		return s.liveness.lastAck + stopTime, true
	}
	at = s.liveness.lastAck + s.silentAfter()
	return max(at, s.liveness.other.notSilentBefore(s.boundedPTO())), true
}

// silentAfter returns how long the carrier may go without an ack before it counts as silent.
func (s *Session) silentAfter() time.Duration {
	wait := silentPTOs * s.boundedPTO()
	onlyPlay := s.records.playInFlight == s.records.bytesInFlight
	if s.config.Other != nil && s.state == Open && onlyPlay {
		// Play can't wait, so let the other carrier take over soon.
		return wait
	}
	// On a short path, wait may be as little as 80 ms, too little to interrupt a transfer.
	return max(silentTime, wait)
}

// otherCheckAt returns when to check the other carrier. ok is false if there's none, or if no ack
// is awaited.
func (s *Session) otherCheckAt() (at time.Duration, ok bool) {
	at = max(s.liveness.lastAck+s.boundedPTO(), s.liveness.other.checkAt)
	return at, s.config.Other != nil && s.state == Open && s.awaitsAck()
}

// rtt returns the smoothed round trip, or rttGuess until one has been measured.
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
	// The probe timeout includes four times the variance, which is half of the round trip at first
	// (RFC 9002, section 5.3).
	return 3*s.rttGuess + maxReportDelay
}

// boundedPTO is pto with a limit on the variance. Without it, a single late ack would make play
// wait for seconds in the next outage, although QUIC could carry it. The limit is half of the
// round trip in place of four times the variance.
func (s *Session) boundedPTO() time.Duration {
	_, smoothed, _ := s.control.RTT()
	if smoothed == 0 {
		return s.pto()
	}
	return min(s.pto(), smoothed*3/2+maxReportDelay+s.config.PlayDelay)
}

// probeAfter returns how long to wait for an ack before we send a probe, or have QUIC send a ping.
//
// It is the probe timeout up to a bound, plus the time for which the peer may delay an ack for
// play. A single late ack can make the timeout several seconds long. Without the bound, a silent
// carrier could close before it had sent a probe.
func (s *Session) probeAfter() time.Duration {
	wait := min(s.pto(), max(silentTime, 2*s.rtt()))
	if s.liveness.ackMayWait {
		wait += s.config.PlayDelay
	}
	return wait
}
