package sealed

import "time"

// State is how a carrier stands.
type State uint8

const (
	// Opening: no packet was acked yet. Nothing but probes leaves.
	Opening State = iota
	// Open: payloads leave.
	Open
	// Silent: nothing was acked for silentPTOs, and for silentTime as well while bulk is in flight, though the peer was heard over
	// the other carrier. All payloads in flight were given back as lost, none is asked for; a ping each PTO looks whether the path
	// comes back, which makes the carrier Open.
	Silent
	// Closed: by its owner, after 10 s of silence, or by a violation. It never opens again.
	Closed
)

func (s State) String() string {
	names := [...]string{"opening", "open", "silent", "closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

const (
	// silentPTOs and silentTime must both pass without an ack before a carrier counts as silent: three lost probes alone
	// would be 20 ms on a short path, a second alone less than a round trip on a long one.
	silentPTOs = 3
	silentTime = time.Second
	// stopTime without an ack ends a carrier.
	stopTime = 10 * time.Second

	// unknownRTT is RFC 9002's kInitialRtt, for owners that know nothing.
	unknownRTT = 333 * time.Millisecond
	// minPTO keeps probes apart on short paths, where timers are coarser than round trips.
	minPTO = 10 * time.Millisecond
)

// hearing watches that the peer acks what asks for it.
type hearing struct {
	heard  time.Duration // last ack, or, if later, when a packet left into an empty path
	asked  time.Duration // last packet that asks for an ack
	opened time.Duration // last packet of the peer, 0 = none
	probes int           // packets that may pass every gate
	ptos   int           // in a row without an ack
	idly   bool          // the last packet that asks for an ack leaves it time
	other  other
}

// other is what is heard of the peer over the other carrier while nothing was acked for a probe timeout.
type other struct {
	waits bool          // it is being watched
	mark  uint64        // what had come there when that began
	seen  time.Duration // when more had come, 0 = it has not
	again time.Duration // when to look again
}

// look looks at the other carrier.
func (o *other) look(t time.Duration, came uint64) {
	switch {
	case !o.waits:
		*o = other{waits: true, mark: came}
	case o.seen == 0 && came > o.mark:
		o.seen = t
	}
}

// setState notes a change that the owner is told of.
func (s *Session) setState(to State) {
	if s.state != to {
		s.state, s.changed = to, true
	}
}

// hear takes an ack at t.
func (s *Session) hear(t time.Duration) {
	s.hearing.heard, s.hearing.ptos, s.hearing.other = t, 0, other{}
	if s.state == Opening || s.state == Silent {
		s.setState(Open)
	}
	s.Wake()
}

// asked notes that a packet left that asks for an ack.
func (s *Session) asked(t time.Duration, idly bool) {
	if s.records.flying == 0 && s.state == Open {
		s.hearing.heard = t
	}
	s.hearing.asked, s.hearing.idly = t, idly
}

// hushedAt returns from when on it is odd that nothing came from a peer that has sent: our own address may have changed, which
// only packets of QUIC can tell it. Of a path whose probe timeout is longer than a second it is not.
func (s *Session) hushedAt() (time.Duration, bool) {
	at := s.hearing.opened + s.pto()
	return at, s.hearing.opened > 0 && at < s.hearing.opened+silentTime
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
		return max(s.control.PTO(), minPTO)
	}
	return max(3*s.guess+maxReportDelay, minPTO) // RFC 9002, section 5.3: the variance begins as half the round trip
}

// ptoAt returns when the next probe is due. It is doubled while opening, for the peer may not listen yet.
func (s *Session) ptoAt() (time.Duration, bool) {
	if !s.started || s.hearing.probes > 0 || !s.waiting() {
		return 0, false
	}
	wait := s.pto()
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
	return max(s.hearing.heard+s.silentAfter(), s.otherAt()), true
}

// otherAt returns when the other carrier has been heard for two probe timeouts, in which this one was not: when a dark path carries
// again either may be first. While it is not heard that is when to look at it again.
func (s *Session) otherAt() time.Duration {
	switch o := &s.hearing.other; {
	case s.config.Other == nil || s.state != Open:
		return 0
	case o.seen > 0:
		return o.seen + 2*s.patience()
	default:
		return o.again
	}
}

// silentAfter is how long nothing may be acked before the carrier counts as silent. Play alone does not wait for a second.
func (s *Session) silentAfter() time.Duration {
	if s.config.Other != nil && s.state == Open && s.records.play == s.records.bytes {
		return silentPTOs * s.patience()
	}
	return max(silentTime, silentPTOs*s.patience())
}

// watchAt returns when to look at the other carrier, while nothing is acked here.
func (s *Session) watchAt() (at time.Duration, ok bool) {
	at = max(s.hearing.heard+s.patience(), s.hearing.other.again)
	return at, s.config.Other != nil && s.state == Open && s.waiting()
}

// watch looks at the other carrier when it is time.
func (s *Session) watch(t time.Duration) {
	if at, ok := s.watchAt(); !ok || t < at {
		return
	}
	s.hearing.other.look(t, s.config.Other())
	s.hearing.other.again = t + max(s.patience()/2, minPTO)
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
	s.watch(t)
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
