package dos

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// Peer is one client: one connection, or all connections of one identity. It belongs to the goroutine of its detector.
type Peer struct {
	detector *Detector
	identity string
	conns    int

	state     int
	earned    [maxStates]int64 // by state: the last second in which a quota of it was reached, or its limits blocked a call
	visit     uint64           // number of states that the peer was in before this one
	kind      string           // kind of the quota that was reached last
	cause     string           // which quota led into the state, or into that from which it escalated
	tolerated int64            // before this second the time of handlers does not count, since the peer has just joined

	frame   uint64 // number of the frame that inFrame counts
	inFrame Load
	second  int64             // the current second
	history [maxWindow]record // load of the last seconds, by second modulo maxWindow
	// The least load that leads into a higher state: within this frame, and within the rest of the current second.
	frameBound, secondBound Load

	// What came since the state began, which AutoEscalate counts.
	began      int64  // the second in which the state began
	beganFrame uint64 // and the frame
	fresh      record // load of the current second
	blocked    bool   // a call was blocked in the current second
	busy       int64  // how many seconds goOn has counted

	// Calls and bytes in a bucket from which each second takes its share of the sustained state's Period: what came in the long run, as
	// State.AutoEscalate counts it. It holds the seconds that are over. A kick empties it.
	bucket Load

	methods []*Method
	report  *Report // a change that Report has not returned yet
}

// record counts the load of the peer in one second.
type record struct {
	Load
	frame Load // the greatest load of one frame, for each kind
}

// Report describes a change of a peer's state.
type Report struct {
	From, To string
	Up       bool
	Log      bool // Log of the higher of the two states
	Kick     bool
	Reason   string // which setting was reached, by how much of which kind, and which method used most of it
}

// newPeer returns a peer whose states have all cooled off.
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

// Call counts a call that has arrived, and reports whether it may run.
func (p *Peer) Call(m *Method, bytes int) bool {
	p.Count(m, bytes)
	if m.exempt || m.unblocked || !p.blocks(m, bytes) {
		return true
	}
	p.earned[p.state], p.blocked = p.second, true
	m.blocked++
	return false
}

// Count counts a call that has arrived and that no state blocks.
func (p *Peer) Count(m *Method, bytes int) {
	if !m.exempt {
		p.use(m, Load{Calls: 1, Bytes: bytes})
	}
}

// Serve notes the time of handlers for messages that answer the server's own: it is neither a load of the client nor a hitch of the
// server.
func (p *Peer) Serve(took time.Duration) { p.detector.spent += took }

// Done counts the time that a call took, after it has run.
func (p *Peer) Done(m *Method, took time.Duration) {
	p.detector.spent += took
	if m.exempt {
		return
	}
	m.ran.Time += took
	p.use(m, Load{Time: took})
}

// Report returns the last change of the state, unless an earlier call has returned it.
func (p *Peer) Report() (r Report, ok bool) {
	if p.report == nil {
		return r, false
	}
	r, p.report = *p.report, nil
	return r, true
}

// use counts a load, and escalates if a quota is reached.
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

// catchUp ends the frame and the seconds that have passed since the last call.
func (p *Peer) catchUp() {
	d := p.detector
	if p.frame == d.frame {
		return
	}
	p.history[p.second%maxWindow].frame.peak(p.inFrame)
	if p.frame != p.beganFrame {
		p.fresh.frame.peak(p.inFrame)
	}
	p.frame, p.inFrame = d.frame, Load{}
	if p.second == d.second {
		return
	}
	for n := 0; p.second < d.second && n <= maxWindow; n++ {
		p.endSecond()
	}
	if p.second < d.second { // no call came for longer than the history
		p.leak(d.second - p.second)
		p.second = d.second
		if p.rests() {
			p.busy = 0
		}
	}
	p.cool()
	p.bound()
}

// endSecond notes which states the second that has passed earned, and begins the next second.
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

// sustained returns the state whose Period is what a peer may go on with.
func (p *Peer) sustained() *State { return &p.detector.profile.States[p.detector.sustained] }

// goOn counts the second that has passed if the peer went on in it: a call was blocked, a quota of a frame was reached, or a second's share
// of a quota of the sustained state's period. The count begins anew when the peer did not go on, and rests.
func (p *Peer) goOn() {
	s := &p.detector.profile.States[p.state]
	kind := cmp.Or(s.Frame.reached(p.fresh.frame), p.detector.share.reached(p.fresh.Load))
	p.kind = cmp.Or(kind, p.kind)
	if kind != "" || p.blocked {
		p.busy++
	} else if p.rests() {
		p.busy = 0
	}
	p.fresh, p.blocked = record{}, false
}

// rests reports whether the last seconds, without those before the state began, reach no quota of the sustained state's period, and the bucket
// reaches none either.
func (p *Peer) rests() bool {
	sustained := p.sustained()
	window := min(sustained.Window, time.Duration(p.second-p.began)*time.Second)
	return sustained.Period.reached(p.sum(0, window)) == "" && !p.exceeds()
}

// leak takes the shares of so many seconds out of the bucket.
func (p *Peer) leak(seconds int64) {
	left := func(held, share int) int { return int(max(0, int64(held)-min(seconds, math.MaxInt32)*int64(share))) }
	p.bucket.Calls = left(p.bucket.Calls, p.detector.share.Calls)
	p.bucket.Bytes = left(p.bucket.Bytes, p.detector.share.Bytes)
}

// exceeds reports whether the bucket holds a quota of the sustained state's period: a peer that rests for a window between bursts has not stopped,
// and calm seconds save nothing for later ones. Handler time is not summed, for a disk or a busy machine makes that of honest clients long.
func (p *Peer) exceeds() bool {
	return p.state >= p.detector.sustained && p.sustained().Period.reached(p.bucket) != ""
}

// cool leaves the states that have cooled off. If none has, and the peer went on for AutoEscalate, it enters the next higher state.
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

// escalate enters the highest state that has a quota which is reached.
func (p *Peer) escalate() {
	for i := len(p.detector.profile.States) - 1; i > p.state; i-- {
		if h := p.hit(i); h.kind != "" {
			top := p.most(h.kind)
			p.kind, p.cause = h.kind, h.cause(top)
			p.enter(i, h.String()+top.recently(h.kind, p.second))
			return
		}
	}
}

// enter enters a higher state. A state that kicks ends at once: a client that comes back is in the state below it.
func (p *Peer) enter(state int, reason string) {
	was := p.state
	for i := 1; i <= state; i++ {
		p.earned[i] = p.second
	}
	p.state = state
	p.begin()
	p.tell(was, reason)
	if p.detector.profile.States[state].Kick {
		p.state, p.inFrame, p.history, p.bucket = state-1, Load{}, [maxWindow]record{}, Load{}
	}
	p.bound()
}

// begin begins to count what comes in a state.
func (p *Peer) begin() {
	p.visit++
	p.began, p.beganFrame = p.second, p.frame
	p.fresh, p.blocked, p.busy = record{}, false, 0
}

// tell makes the report of a change, unless Report has not returned that of a kick yet.
func (p *Peer) tell(was int, reason string) {
	if p.report != nil && p.report.Kick {
		return
	}
	states := p.detector.profile.States
	from, to, up := &states[was], &states[p.state], p.state > was
	p.report = &Report{From: from.Name, To: to.Name, Up: up, Log: states[max(was, p.state)].Log, Kick: up && to.Kick, Reason: reason}
}

// reach is a quota that was reached.
type reach struct {
	used, quota Load
	kind        string
	state       int
	field       string        // Frame or Period
	window      time.Duration // the Window of a Period
}

func (r *reach) String() string {
	return fmt.Sprintf("%s, the quota is %s (States[%d].%s.%s)", r.load(), r.quota.of(r.kind), r.state, r.field, r.kind)
}

// load says how much was used, and in which time.
func (r *reach) load() string {
	if r.field == "Period" {
		return fmt.Sprintf("%s within %v", r.used.of(r.kind), r.window)
	}
	return r.used.of(r.kind) + " in one frame"
}

// cause is String in short, for the report of a later escalation: a close reason has room for 256 bytes.
func (r *reach) cause(top *Method) string {
	s := fmt.Sprintf("%s (States[%d].%s.%s)", r.load(), r.state, r.field, r.kind)
	if top != nil {
		s += ", most of " + top.name
	}
	return s
}

// hit returns a quota of a state that is reached, by the greatest frame of the current second or by the window that ends with it. Its kind
// is empty when none is.
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

// sum adds up the seconds of a window that ends with the current second, from the one that was so many seconds ago.
func (p *Peer) sum(ago int64, window time.Duration) (used Load) {
	for n := ago; n < int64(window/time.Second) && n <= p.second; n++ {
		used.add(p.history[(p.second-n)%maxWindow].Load)
	}
	return used
}

// bound computes frameBound and secondBound, so that each call need be compared only with these.
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

// lower lowers a bound to what used leaves of a quota.
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
