package sealed

import "time"

const (
	// silentPTOs without an ack make a carrier silent; while bulk is in flight, silentTime must have passed as well. See silentAfter.
	silentPTOs = 3
	silentTime = time.Second
	// stopTime without an ack ends a carrier.
	stopTime = 10 * time.Second

	// unknownRTT is RFC 9002's kInitialRtt, for owners that know nothing.
	unknownRTT = 333 * time.Millisecond
)

// hearing is what was heard of the peer, and what it was asked.
type hearing struct {
	heard    time.Duration // last ack, or, if later, when a packet left into an empty path
	asked    time.Duration // when the last packet left that asks for an ack
	received time.Duration // when the last packet of the peer was received, 0 = none was
	probes   int           // packets that may pass every gate
	ptos     int           // in a row without an ack
	idly     bool          // the last packet that asks for an ack leaves it time
	other    otherCarrier
}

// ack notes an ack at t.
func (h *hearing) ack(t time.Duration) { h.heard, h.ptos, h.other = t, 0, otherCarrier{} }

// ask notes that a packet left at t that asks for an ack; idly = and leaves it time. Into an empty path, silence is counted from t on.
func (h *hearing) ask(t time.Duration, idly, empty bool) {
	if empty {
		h.heard = t
	}
	h.asked, h.idly = t, idly
}

// overdueAt returns when a peer that has sent before should have been heard again. Silence then may mean that our own address has
// changed, which only packets of QUIC tell the peer. Where a probe timeout is longer than silentTime, silence is not odd: false.
func (h *hearing) overdueAt(pto time.Duration) (time.Duration, bool) {
	return h.received + pto, h.received > 0 && pto < silentTime
}

// otherCarrier is what came over the connection's other carrier since this one has waited a probe timeout for an ack.
type otherCarrier struct {
	watching bool
	packets  uint64        // received when the watching began
	heardAt  time.Duration // when more of them were seen, 0 = not yet
	lookAt   time.Duration // when to look again
}

// watch notes at t how many packets the other carrier has received, and looks again half of patience later.
func (o *otherCarrier) watch(t time.Duration, packets uint64, patience time.Duration) {
	switch {
	case !o.watching:
		*o = otherCarrier{watching: true, packets: packets}
	case o.heardAt == 0 && packets > o.packets:
		o.heardAt = t
	}
	o.lookAt = t + patience/2
}

// until returns until when the carrier may not count as silent because of the other one: two probe timeouts after that was heard,
// for when a path comes back either may be first. Until it is heard, that is the time to look again.
func (o *otherCarrier) until(patience time.Duration) time.Duration {
	if o.heardAt > 0 {
		return o.heardAt + 2*patience
	}
	return o.lookAt
}

// hear takes an ack at t.
func (s *Session) hear(t time.Duration) {
	s.hearing.ack(t)
	if s.state == Opening || s.state == Silent {
		s.setState(Open)
	}
	s.Wake()
}

// waiting reports whether an ack is due some time.
func (s *Session) waiting() bool {
	return s.records.flying > 0 || s.state == Opening || s.state == Silent
}

// rtt returns the smoothed round trip, or the best guess.
func (s *Session) rtt() time.Duration {
	if _, smoothed, _ := s.control.RTT(); smoothed > 0 {
		return smoothed
	}
	return s.guess
}

// pto returns after how long without an ack a probe is due.
func (s *Session) pto() time.Duration {
	if _, smoothed, _ := s.control.RTT(); smoothed > 0 {
		return s.control.PTO()
	}
	return 3*s.guess + maxReportDelay // RFC 9002, section 5.3: the variance begins as half the round trip
}

// probeAfter is how long a probe waits for an ack of what left before. One late ack makes the probe timeout as long as it was late, seconds
// in which a carrier that is silent would end without having asked.
func (s *Session) probeAfter() time.Duration {
	return min(s.pto(), max(silentTime, 2*s.rtt()))
}

// ptoAt returns when the next probe is due. It is doubled while opening, for the peer may not listen yet.
func (s *Session) ptoAt() (time.Duration, bool) {
	if !s.started || s.hearing.probes > 0 || !s.waiting() {
		return 0, false
	}
	wait := s.probeAfter()
	if s.hearing.idly {
		wait += s.config.PlayDelay
	}
	if s.state == Opening {
		wait <<= min(s.hearing.ptos, 4)
		wait = min(wait, silentTime)
	}
	return s.hearing.asked + wait, true
}

// silentAt returns when the state gets worse.
func (s *Session) silentAt() (time.Duration, bool) {
	switch {
	case !s.started || !s.waiting():
		return 0, false
	case s.state == Silent:
		return s.hearing.heard + stopTime, true
	}
	return max(s.hearing.heard+s.silentAfter(), s.hearing.other.until(s.patience())), true
}

// silentAfter is how long nothing may be acked before the carrier counts as silent: silentPTOs for play alone, which the other carrier
// is to take over soon. For bulk, while opening and without another carrier it is silentTime at least, for silentPTOs are 80 ms on a short path.
func (s *Session) silentAfter() time.Duration {
	if s.config.Other != nil && s.state == Open && s.records.play == s.records.bytes {
		return silentPTOs * s.patience()
	}
	return max(silentTime, silentPTOs*s.patience())
}

// watchAt returns when to look at the other carrier, while nothing is acked here.
func (s *Session) watchAt() (at time.Duration, ok bool) {
	at = max(s.hearing.heard+s.patience(), s.hearing.other.lookAt)
	return at, s.config.Other != nil && s.state == Open && s.waiting()
}

// patience is a probe timeout without the variance that one late ack makes: after an outage it would keep play waiting for
// seconds in the next, though QUIC carries at once.
func (s *Session) patience() time.Duration {
	_, smoothed, _ := s.control.RTT()
	if smoothed == 0 {
		return s.pto()
	}
	return min(s.pto(), smoothed*3/2+maxReportDelay+s.config.PlayDelay)
}

// checkHearing runs the timers of silence.
func (s *Session) checkHearing(t time.Duration) {
	if at, ok := s.watchAt(); ok && t >= at {
		s.hearing.other.watch(t, s.config.Other(), s.patience())
	}
	at, ok := s.silentAt()
	switch {
	case !ok || at > t:
	case s.state == Silent:
		s.end(&Error{Kind: Unheard, Reason: "no ack for " + stopTime.String()})
	default:
		s.setState(Silent)
		s.abandon(t)
	}
	if at, ok := s.ptoAt(); ok && at <= t {
		s.hearing.probes = 1
		s.hearing.ptos++
	}
}

// abandon gives back everything in flight: the owner sends it another way.
func (s *Session) abandon(t time.Duration) {
	for n, ok := s.records.firstFlying(); ok; n, ok = s.records.firstFlying() {
		s.lose(t, n, abandoned)
	}
	s.control.Feedback(s.time(t), s.records.bytes)
}
