package dos

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// A Peer is one client: one connection, or all connections of one identity. It is used only
// by the goroutine of its detector.
type Peer struct {
	detector *Detector
	identity string
	conns    int // number of open connections of the client

	// The state, an index into Profile.States.
	state int

	// By state: the last second in which the load reached one of its
	// quotas, or in which its limits blocked a call.
	earned [maxStates]int64

	visit uint64 // number of states that the peer was in before this one
	kind  string // kind of the quota that was reached last

	// The quota that led into the state, or into the state from which
	// the peer escalated. See reach.cause.
	cause string

	// The time of handlers does not count before this second, because the peer has just joined.
	tolerated int64

	// The load.
	frame   uint64            // number of the frame that inFrame counts
	inFrame Load              // of that frame
	second  int64             // the current second
	history [maxWindow]record // of the last seconds, by second modulo maxWindow

	// The smallest load that enters a higher state: in the current
	// frame, and in the current second. Set by bound.
	frameBound, secondBound Load

	// The load since the state began, for AutoEscalate.
	began      int64  // the second in which the state began
	beganFrame uint64 // the frame in which it began
	fresh      record // load of the current second
	blocked    bool   // a call was blocked in the current second
	busy       int64  // seconds in which the peer went on; see goOn

	// bucket is a leaky bucket of calls and bytes, for State.AutoEscalate. Each second that
	// is over adds its load, and removes its share of the Period of the sustained state. The
	// bucket therefore holds what exceeds that Period in the long run. A kick empties it.
	bucket Load

	methods []*Method // made by Method
	report  *Report   // the last change of the state, until Report returns it; nil = none
}

// record is the load of the peer in one second.
type record struct {
	Load
	frame Load // for each kind, the largest load of one frame
}

// A Report describes a change of a peer's state.
type Report struct {
	From, To string // names of the states
	Up       bool   // To is the higher state
	Log      bool   // the higher of the two states has Log
	Kick     bool   // the client must be disconnected
	Reason   string // the quota that was reached, the load, and the method that caused most of it
}

// newPeer returns a peer in the lowest state. All its states have cooled off.
func newPeer(d *Detector, identity string) *Peer {
	p := &Peer{detector: d, identity: identity, second: d.second, tolerated: math.MinInt64 / 2}
	for i := range p.earned {
		p.earned[i] = math.MinInt64 / 2
	}
	p.bound()
	return p
}

// State returns the name of the peer's state at its last call.
func (p *Peer) State() string { return p.detector.profile.States[p.state].Name }

// Call counts a call that arrived, and reports whether it may run.
func (p *Peer) Call(m *Method, bytes int) bool {
	p.Count(m, bytes)
	if m.exempt || m.unblocked || !p.blocks(m, bytes) {
		return true
	}
	p.earned[p.state] = p.second
	p.blocked = true
	m.blocked++
	return false
}

// Count counts a call that arrived and that no state blocks.
func (p *Peer) Count(m *Method, bytes int) {
	if !m.exempt {
		p.use(m, Load{Calls: 1, Bytes: bytes})
	}
}

// Serve counts the time of a handler for a message that answers one of the server's own. Such
// time is neither load of the client nor a hitch of the server.
func (p *Peer) Serve(took time.Duration) { p.detector.spent += took }

// Done counts the time that the handler of a call took. It is called after the handler returns.
func (p *Peer) Done(m *Method, took time.Duration) {
	p.detector.spent += took
	if m.exempt {
		return
	}
	m.ran.Time += took
	p.use(m, Load{Time: took})
}

// Report returns the last change of the state, unless an earlier call returned it.
func (p *Peer) Report() (r Report, ok bool) {
	if p.report == nil {
		return r, false
	}
	r = *p.report
	p.report = nil
	return r, true
}

// use counts load. If one of the quotas of a higher state is reached, it enters that state.
func (p *Peer) use(m *Method, load Load) {
	p.catchUp()
	if p.second < p.tolerated {
		load.Time = 0
	}
	now := &p.history[p.second%maxWindow]
	if !p.detector.suspended {
		p.inFrame.add(load)
	}
	now.add(load)
	p.fresh.add(load)
	m.add(p.second, p.visit, load)
	if p.frameBound.reached(p.inFrame) != "" || p.secondBound.reached(now.Load) != "" {
		p.escalate()
	}
}

// catchUp ends the frame and the seconds that passed since the last call.
func (p *Peer) catchUp() {
	d := p.detector
	if p.frame == d.frame {
		return
	}
	p.history[p.second%maxWindow].frame.peak(p.inFrame)
	if p.frame != p.beganFrame {
		p.fresh.frame.peak(p.inFrame)
	}
	p.frame = d.frame
	p.inFrame = Load{}
	if p.second == d.second {
		return
	}
	for n := 0; p.second < d.second && n <= maxWindow; n++ {
		p.endSecond()
	}
	if p.second < d.second { // the last call is older than the history
		p.leak(d.second - p.second)
		p.second = d.second
		if p.rests() {
			p.busy = 0
		}
	}
	p.cool()
	p.bound()
}

// endSecond is called when p.second is over. It records which states have not begun to cool
// off in that second, and begins the next one.
func (p *Peer) endSecond() {
	p.leak(1)
	p.bucket.Calls += p.history[p.second%maxWindow].Calls
	p.bucket.Bytes += p.history[p.second%maxWindow].Bytes
	exceeds := p.exceeds()
	for i := 1; i <= p.state; i++ {
		if p.hit(i).kind != "" || exceeds {
			p.earned[i] = p.second
		}
	}
	p.goOn()
	p.second++
	p.history[p.second%maxWindow] = record{}
}

// sustained returns the state whose Period is the load that a peer may sustain.
func (p *Peer) sustained() *State { return &p.detector.profile.States[p.detector.sustained] }

// goOn is called when a second is over. If the peer went on in that second, goOn counts the
// second in busy. If the peer did not go on and rests, goOn resets busy.
//
// A peer went on if a call was blocked, if a frame reached its quota, or if the load reached
// a second's share of the sustained state's Period.
func (p *Peer) goOn() {
	s := &p.detector.profile.States[p.state]
	kind := cmp.Or(s.Frame.reached(p.fresh.frame), p.detector.share.reached(p.fresh.Load))
	p.kind = cmp.Or(kind, p.kind)
	if kind != "" || p.blocked {
		p.busy++
	} else if p.rests() {
		p.busy = 0
	}
	p.fresh = record{}
	p.blocked = false
}

// rests reports whether the peer's load is below every quota of the sustained state's Period.
// This applies to the load of the last seconds, since the state began, and to the bucket.
func (p *Peer) rests() bool {
	sustained := p.sustained()
	window := min(sustained.Window, time.Duration(p.second-p.began)*time.Second)
	return sustained.Period.reached(p.sum(0, window)) == "" && !p.exceeds()
}

// leak removes the shares of the given number of seconds from the bucket.
func (p *Peer) leak(seconds int64) {
	left := func(held, share int) int {
		return int(max(0, int64(held)-min(seconds, math.MaxInt32)*int64(share)))
	}
	p.bucket.Calls = left(p.bucket.Calls, p.detector.share.Calls)
	p.bucket.Bytes = left(p.bucket.Bytes, p.detector.share.Bytes)
}

// exceeds reports whether the bucket has reached a quota of the sustained state's Period.
// Because of the bucket, a peer does not escape by resting for a window between bursts, and
// calm seconds earn no credit for later ones.
//
// The bucket does not contain the time of handlers. A slow disk or a busy machine makes that
// time long for honest clients too.
func (p *Peer) exceeds() bool {
	return p.state >= p.detector.sustained && p.sustained().Period.reached(p.bucket) != ""
}

// cool leaves the states that have cooled off. If there are none and the peer went on for
// AutoEscalate, cool enters the next higher state.
func (p *Peer) cool() {
	states := p.detector.profile.States
	was := p.state
	for p.state > 0 && p.second-p.earned[p.state] > seconds(states[p.state].Cooloff) {
		p.state--
	}
	if p.state < was {
		p.begin()
		p.tell(was, "it has cooled off")
		return
	}
	limit := states[p.state].AutoEscalate
	if limit > 0 && p.busy >= seconds(limit) && p.state+1 < len(states) {
		p.enter(p.state+1, fmt.Sprintf("%q went on for %v (States[%d].AutoEscalate)%s; it began with %s",
			states[was].Name, limit, was, p.mostInState(), p.cause))
	}
}

// escalate enters the highest state that has a reached quota.
func (p *Peer) escalate() {
	for i := len(p.detector.profile.States) - 1; i > p.state; i-- {
		h := p.hit(i)
		if h.kind != "" {
			top := p.most(h.kind)
			p.kind = h.kind
			p.cause = h.cause(top)
			p.enter(i, h.String()+top.recently(h.kind, p.second))
			return
		}
	}
}

// enter enters a higher state. A state that kicks ends at once, so a
// client that reconnects is in the state below it.
func (p *Peer) enter(state int, reason string) {
	was := p.state
	for i := 1; i <= state; i++ {
		p.earned[i] = p.second
	}
	p.state = state
	p.begin()
	p.tell(was, reason)
	if p.detector.profile.States[state].Kick {
		p.state = state - 1
		p.inFrame = Load{}
		p.history = [maxWindow]record{}
		p.bucket = Load{}
	}
	p.bound()
}

// begin resets the counts that start when a state begins.
func (p *Peer) begin() {
	p.visit++
	p.began = p.second
	p.beganFrame = p.frame
	p.fresh = record{}
	p.blocked = false
	p.busy = 0
}

// tell makes the report of a change. If Report has not yet returned
// the report of a kick, that report stays.
func (p *Peer) tell(was int, reason string) {
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

// reach is a quota that was reached, and the load that reached it.
type reach struct {
	used, quota Load
	kind        string        // which part of the load: see Load.reached
	state       int           // the state whose quota it is
	field       string        // Frame or Period
	window      time.Duration // the Window of a Period
}

func (r *reach) String() string {
	return fmt.Sprintf("%s, the quota is %s (States[%d].%s.%s)", r.load(), r.quota.of(r.kind), r.state, r.field, r.kind)
}

// load returns the amount that was used and the time in which it was used, as text.
func (r *reach) load() string {
	if r.field == "Period" {
		return fmt.Sprintf("%s within %v", r.used.of(r.kind), r.window)
	}
	return r.used.of(r.kind) + " in one frame"
}

// cause is a shorter String, for the reason of a later escalation. A
// close reason has room for only 256 bytes.
func (r *reach) cause(top *Method) string {
	s := fmt.Sprintf("%s (States[%d].%s.%s)", r.load(), r.state, r.field, r.kind)
	if top != nil {
		s += ", most of " + top.name
	}
	return s
}

// hit returns a reached quota of a state. The load that counts is the
// largest frame of the current second, or the window that ends with that
// second. The kind is empty if no quota is reached.
func (p *Peer) hit(state int) reach {
	s := &p.detector.profile.States[state]
	frame := p.history[p.second%maxWindow].frame
	frame.peak(p.inFrame)
	if kind := s.Frame.reached(frame); kind != "" {
		return reach{frame, s.Frame, kind, state, "Frame", 0}
	}
	if s.Period == (Load{}) {
		return reach{}
	}
	used := p.sum(0, s.Window)
	return reach{used, s.Period, s.Period.reached(used), state, "Period", s.Window}
}

// sum returns the load of a window that ends with the current second.
// It leaves out the last ago seconds.
func (p *Peer) sum(ago int64, window time.Duration) (used Load) {
	for n := ago; n < int64(window/time.Second) && n <= p.second; n++ {
		used.add(p.history[(p.second-n)%maxWindow].Load)
	}
	return used
}

// bound computes frameBound and secondBound. use can then compare the load
// with these two instead of with every quota.
func (p *Peer) bound() {
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

// lower lowers the bound l to what is left of quota after used.
func (l *Load) lower(quota, used Load) {
	if quota.Calls > 0 {
		l.Calls = min(l.Calls, max(1, quota.Calls-used.Calls))
	}
	if quota.Bytes > 0 {
		l.Bytes = min(l.Bytes, max(1, quota.Bytes-used.Bytes))
	}
	if quota.Time > 0 {
		l.Time = min(l.Time, max(1, quota.Time-used.Time))
	}
}
