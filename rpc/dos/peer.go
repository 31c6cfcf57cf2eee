package dos

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// A Peer is a client as the detector sees it: a single connection or, if the client has an
// identity, all of the connections of that identity. It may only be used by the goroutine of
// its detector.
//
// A peer enters increasingly severe states of the profile as its load reaches their quotas. It
// leaves a state again once it has been quiet for the state's Cooloff.
type Peer struct {
	detector *Detector
	identity string
	conns    int // number of open connections of the client

	// The state, as an index into Profile.States.
	state int

	// By state: the last second in which the load reached one of the state's quotas, or in which
	// the state blocked a call. The state's Cooloff begins there.
	lastBreach [maxStates]int64

	kind loadKind // kind of the last quota that was reached (see Load.reached)

	// The quota that last led into a higher state, as text. If the peer persists and escalates
	// further, the reason repeats this text.
	cause string

	// Until this second, handler time doesn't count, because the peer has just joined.
	toleratedUntil int64

	// The load, by frame and by second.
	frame   uint64            // number of the frame that inFrame belongs to
	inFrame Load              // load in that frame
	second  int64             // the current second
	history [maxWindow]record // the last seconds; a second's index is its remainder by maxWindow

	// The lowest load in the current frame, and in the current second, that may lead into a
	// higher state. Set by setBounds.
	frameBound, secondBound Load

	// The time since the peer entered its state.
	stay stay

	// bucket is a leaky bucket of calls and bytes, for State.AutoEscalate. Each second adds its
	// load, and drains a second's share of the sustained state's Period. The bucket therefore
	// fills up with the load that exceeds that Period in the long run. A kick empties it.
	bucket Load

	methods []*Method // made by Method
	report  *Report   // the last state change, until Report returns it; nil if there is none
}

// A record is the load in one second.
type record struct {
	Load
	frame Load // for each kind, the maximum in a single frame
}

// A stay is the time that a peer spends in a state, from entering it until it enters another
// state.
type stay struct {
	number uint64 // counts the peer's stays
	began  int64  // the second in which it began
	frame  uint64 // the frame in which it began, whose load may have caused the change of state

	load    record // load in the part of the current second that belongs to this stay
	blocked bool   // a call was blocked in the current second
	busy    int64  // number of seconds in which the peer persisted; see countBusy
}

// A Report describes how a peer's state has changed.
type Report struct {
	From, To string // names of the states
	Up       bool   // To is the higher state
	Log      bool   // whether the higher of the two states has Log
	Kick     bool   // whether the client must be disconnected
	Reason   string // the quota that was reached, the load, and the method that caused most of it
}

// newPeer returns a peer in the lowest state, without a record of any other state.
func newPeer(d *Detector, identity string) *Peer {
	p := &Peer{detector: d, identity: identity, second: d.second, toleratedUntil: math.MinInt64 / 2}
	for i := range p.lastBreach {
		p.lastBreach[i] = math.MinInt64 / 2
	}
	p.setBounds()
	return p
}

// State returns the name of the state that the peer was in at its last call.
func (p *Peer) State() string { return p.detector.profile.States[p.state].Name }

// Call counts a call that has arrived, and reports whether it may run.
func (p *Peer) Call(m *Method, bytes int) bool {
	p.Count(m, bytes)
	if m.exempt || m.unblocked || p.admit(m, bytes) {
		return true
	}
	p.lastBreach[p.state] = p.second
	p.stay.blocked = true
	m.blocked++
	return false
}

// Count counts a call that has arrived and that is never blocked.
func (p *Peer) Count(m *Method, bytes int) {
	if !m.exempt {
		p.addLoad(m, Load{Calls: 1, Bytes: bytes})
	}
}

// Serve counts the handler time of a message that answers a message of the server. This time counts
// neither towards the client's load nor as a hitch of the server.
func (p *Peer) Serve(took time.Duration) { p.detector.handlerTime += took }

// Done is called when the handler of a call has returned, and counts how long it took.
func (p *Peer) Done(m *Method, took time.Duration) {
	p.detector.handlerTime += took
	if m.exempt {
		return
	}
	m.repeats.Time += took
	p.addLoad(m, Load{Time: took})
}

// Report returns the last change of the peer's state, but only once.
func (p *Peer) Report() (r Report, ok bool) {
	if p.report == nil {
		return r, false
	}
	r = *p.report
	p.report = nil
	return r, true
}

// addLoad counts load, which may move the peer into a higher state.
func (p *Peer) addLoad(m *Method, load Load) {
	p.catchUp()
	if p.second < p.toleratedUntil {
		load.Time = 0
	}
	now := p.current()
	// During a hitch of the server, calls pile up through no fault of the client.
	if !p.detector.suspended {
		p.inFrame.add(load)
	}
	now.add(load)
	p.stay.load.add(load)
	m.add(p.second, p.stay.number, load)
	// Comparing with these two bounds is cheaper than comparing with every quota.
	if p.frameBound.reached(p.inFrame) != noLoad || p.secondBound.reached(now.Load) != noLoad {
		p.escalate()
	}
}

// catchUp is called before the load is used. It finishes the frame, and any seconds that have
// passed since the last call.
func (p *Peer) catchUp() {
	d := p.detector
	if p.frame == d.frame {
		return
	}
	p.current().frame.peak(p.inFrame)
	// The load that led into the state must not count towards leaving it for the next.
	if p.frame != p.stay.frame {
		p.stay.load.frame.peak(p.inFrame)
	}
	p.frame = d.frame
	p.inFrame = Load{}
	if p.second == d.second {
		return
	}
	// One full turn of the history is enough, however long ago the last call was.
	for n := 0; p.second < d.second && n <= maxWindow; n++ {
		p.endSecond()
	}
	if p.second < d.second {
		// The last call was so long ago that the history is empty now. Skip the remaining
		// seconds, in which nothing happened.
		p.leakBucket(d.second - p.second)
		p.second = d.second
		if p.isCalm() {
			p.stay.busy = 0
		}
	}
	p.changeState()
	p.setBounds()
}

// endSecond finishes p.second and begins the next second. If the load has reached a state's quota
// again, the state's Cooloff starts over.
func (p *Peer) endSecond() {
	p.leakBucket(1)
	p.bucket.Calls += p.current().Calls
	p.bucket.Bytes += p.current().Bytes
	full := p.bucketFull()
	for i := 1; i <= p.state; i++ {
		if p.findBreach(i).kind != noLoad || full {
			p.lastBreach[i] = p.second
		}
	}
	p.countBusy()
	p.second++
	*p.current() = record{}
}

// sustained returns the state whose Period sets the load that peers may sustain.
func (p *Peer) sustained() *State { return &p.detector.profile.States[p.detector.sustained] }

// countBusy is called at the end of a second, and counts it in busy if the peer persisted: a call
// was blocked, a frame reached its quota, or the load reached a second's share of the sustained
// state's Period. Otherwise, if the peer has calmed down, the count starts over.
func (p *Peer) countBusy() {
	s := &p.detector.profile.States[p.state]
	kind := cmp.Or(s.Frame.reached(p.stay.load.frame), p.detector.share.reached(p.stay.load.Load))
	p.kind = cmp.Or(kind, p.kind)
	if kind != noLoad || p.stay.blocked {
		p.stay.busy++
	} else if p.isCalm() {
		p.stay.busy = 0
	}
	p.stay.load = record{}
	p.stay.blocked = false
}

// isCalm reports whether the load is below all quotas of the sustained state's Period. It checks
// both the last seconds (of this stay) and, for the long run, the bucket.
func (p *Peer) isCalm() bool {
	sustained := p.sustained()
	window := min(sustained.Window, time.Duration(p.second-p.stay.began)*time.Second)
	return sustained.Period.reached(p.sum(0, window)) == noLoad && !p.bucketFull()
}

// leakBucket drains from the bucket the load that the peer may sustain in the given number of
// seconds.
func (p *Peer) leakBucket(seconds int64) {
	left := func(held, share int) int {
		return int(max(0, int64(held)-min(seconds, math.MaxInt32)*int64(share)))
	}
	p.bucket.Calls = left(p.bucket.Calls, p.detector.share.Calls)
	p.bucket.Bytes = left(p.bucket.Bytes, p.detector.share.Bytes)
}

// bucketFull reports whether the content of the bucket reaches a quota of the sustained state's
// Period. Without the bucket, a peer could evade detection by pausing for a window between
// bursts. Since the bucket never drains below empty, a peer can't save up for a burst with calm
// seconds, either.
//
// The bucket excludes handler time, because a slow disk or a busy machine slows down the handlers
// of honest clients, too.
func (p *Peer) bucketFull() bool {
	return p.state >= p.detector.sustained && p.sustained().Period.reached(p.bucket) != noLoad
}

// changeState leaves all states that have cooled off. If none has cooled off, but the peer has
// persisted for AutoEscalate, the peer enters the next state instead.
func (p *Peer) changeState() {
	states := p.detector.profile.States
	was := p.state
	for p.state > 0 && p.second-p.lastBreach[p.state] > seconds(states[p.state].Cooloff) {
		p.state--
	}
	if p.state < was {
		p.beginStay()
		p.setReport(was, "cooled off")
		return
	}
	limit := states[p.state].AutoEscalate
	if limit > 0 && p.stay.busy >= seconds(limit) && p.state+1 < len(states) {
		p.enter(p.state+1, fmt.Sprintf("%q persisted for %v (States[%d].AutoEscalate)%s; its cause was %s",
			states[was].Name, limit, was, p.describeBlamed(), p.cause))
	}
}

// escalate enters the most severe state with a quota that has been reached.
func (p *Peer) escalate() {
	for i := len(p.detector.profile.States) - 1; i > p.state; i-- {
		h := p.findBreach(i)
		if h.kind != noLoad {
			top := p.heaviest(h.kind)
			p.kind = h.kind
			p.cause = h.cause(top)
			p.enter(i, h.String()+top.describeRecent(h.kind, p.second))
			return
		}
	}
}

// enter enters a more severe state.
func (p *Peer) enter(state int, reason string) {
	was := p.state
	for i := 1; i <= state; i++ {
		p.lastBreach[i] = p.second
	}
	p.state = state
	p.beginStay()
	p.setReport(was, reason)
	// A kick is over as soon as it has been reported. If the client comes back, it is one state
	// below.
	if p.detector.profile.States[state].Kick {
		p.state = state - 1
		p.inFrame = Load{}
		p.history = [maxWindow]record{}
		p.bucket = Load{}
	}
	p.setBounds()
}

// beginStay is called when the state changes.
func (p *Peer) beginStay() {
	p.stay = stay{number: p.stay.number + 1, began: p.second, frame: p.frame}
}

// setReport makes a report for Report to return. It doesn't replace the report of a kick, which
// must not get lost.
func (p *Peer) setReport(was int, reason string) {
	if p.report != nil && p.report.Kick {
		return
	}
	states := p.detector.profile.States
	from, to := &states[was], &states[p.state]
	up := p.state > was
	p.report = &Report{
		From:   from.Name,
		To:     to.Name,
		Up:     up,
		Log:    states[max(was, p.state)].Log,
		Kick:   up && to.Kick,
		Reason: reason,
	}
}

// A breach is a quota that was reached, and the load that reached it.
type breach struct {
	used, quota Load
	kind        loadKind      // kind of load; see Load.reached
	state       int           // the state that the quota belongs to
	field       string        // Frame or Period
	window      time.Duration // the Window of a Period
}

// String describes the load and the quota.
func (b *breach) String() string {
	return fmt.Sprintf("%s; the quota is %s (States[%d].%s.%s)", b.loadText(), b.quota.describe(b.kind), b.state, b.field, b.kind)
}

// loadText describes the load and the time in which it occurred.
func (b *breach) loadText() string {
	if b.field == "Period" {
		return fmt.Sprintf("%s within %v", b.used.describe(b.kind), b.window)
	}
	return b.used.describe(b.kind) + " in one frame"
}

// cause is a shorter String for the reason of a later escalation, since a close reason only has
// room for 256 bytes. top is the method that caused most of the load, or nil.
func (b *breach) cause(top *Method) string {
	s := fmt.Sprintf("%s (States[%d].%s.%s)", b.loadText(), b.state, b.field, b.kind)
	if top != nil {
		s += ", mostly " + top.name
	}
	return s
}

// findBreach returns a quota of the given state that the peer has reached, either in a single
// frame of the current second or over the window that ends with that second. If there is no such
// quota, the result's kind is noLoad.
func (p *Peer) findBreach(state int) breach {
	s := &p.detector.profile.States[state]
	frame := p.current().frame
	frame.peak(p.inFrame)
	if kind := s.Frame.reached(frame); kind != noLoad {
		return breach{used: frame, quota: s.Frame, kind: kind, state: state, field: "Frame"}
	}
	if s.Period == (Load{}) {
		return breach{}
	}
	used := p.sum(0, s.Window)
	kind := s.Period.reached(used)
	return breach{used: used, quota: s.Period, kind: kind, state: state, field: "Period", window: s.Window}
}

// current returns the record of the current second.
func (p *Peer) current() *record { return &p.history[p.second%maxWindow] }

// sum returns the load over a window that ends with the current second, but leaves out the last
// ago seconds.
func (p *Peer) sum(ago int64, window time.Duration) (used Load) {
	for n := ago; n < int64(window/time.Second) && n <= p.second; n++ {
		used.add(p.history[(p.second-n)%maxWindow].Load)
	}
	return used
}

// setBounds computes the lowest load that may reach a quota of a higher state, so that addLoad
// needn't compare with every quota.
func (p *Peer) setBounds() {
	// Start without bounds.
	const none = math.MaxInt
	p.frameBound = Load{none, none, none}
	p.secondBound = p.frameBound
	for i := p.state + 1; i < len(p.detector.profile.States); i++ {
		s := &p.detector.profile.States[i]
		p.frameBound.lower(s.Frame, Load{})
		if s.Period != (Load{}) {
			p.secondBound.lower(s.Period, p.sum(1, s.Window))
		}
	}
}
