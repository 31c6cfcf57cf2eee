package dos

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/words"
)

// A Method records a peer's calls of one method. The detector uses it to decide which method to
// blame and which calls to block.
type Method struct {
	name      string
	exempt    bool // listed in Profile.Exempt
	unblocked bool // listed in Profile.Unblocked

	// The recent load, for finding the method to blame for a new state.
	recent Load  // since the second in since
	since  int64 // at most blameTime ago

	// The calls during the peer's stay in its state. Reset when a new stay begins.
	stay    uint64 // stay.number
	inState Load   // load of all calls
	blocked int    // blocked calls

	// The RepeatWindow, in which only a limited load may run.
	repeats     Load      // of calls that ran in the window
	windowEnd   time.Time // zero until the first window begins
	windowState int       // the state that began the window
}

// blameTime is the period, in seconds, over which methods are compared to find the one to blame.
// It is as long as the longest window.
const blameTime = maxWindow

// Method returns the peer's Method of the given name, "Class.Method", and creates it on the first
// call. Keep the result, because Method has to search for it.
//
// Only pass names that the program declares. Otherwise a client could create any number of
// Methods.
func (p *Peer) Method(name string) *Method {
	for _, m := range p.methods {
		if m.name == name {
			return m
		}
	}
	d := p.detector
	m := &Method{name: name, exempt: includes(d.profile.Exempt, name), unblocked: includes(d.profile.Unblocked, name)}
	p.methods = append(p.methods, m)
	return m
}

// add adds load in the peer's current second and stay.
func (m *Method) add(second int64, stay uint64, load Load) {
	if m.stay != stay {
		m.inState = Load{}
		m.blocked = 0
		m.stay = stay
	}
	m.inState.add(load)
	if second-m.since >= blameTime {
		m.recent = Load{}
		m.since = second
	}
	m.recent.add(load)
}

// admit reports whether the Repeat of the peer's state allows a call of a blockable method to run.
// If so, it counts the call.
func (p *Peer) admit(m *Method, bytes int) bool {
	s := &p.detector.profile.States[p.state]
	if s.Repeat == (Load{}) {
		return true
	}
	now := p.detector.now
	if m.windowState != p.state || !now.Before(m.windowEnd) {
		// Begin a new window.
		m.repeats = Load{}
		m.windowState = p.state
		m.windowEnd = now.Add(s.RepeatWindow)
	}
	if s.Repeat.reached(m.repeats) != noLoad {
		return false
	}
	m.repeats.add(Load{Calls: 1, Bytes: bytes})
	return true
}

// heaviest returns the method with the greatest recent load of a kind, or nil if there is none.
func (p *Peer) heaviest(kind loadKind) (top *Method) {
	for _, m := range p.methods {
		if p.second-m.since < blameTime && !m.exempt && (top == nil || m.recent.hasMore(kind, top.recent)) {
			top = m
		}
	}
	return top
}

// describeRecent returns the name of a method and its recent load of a kind, as part of the reason
// for entering a state. m is the result of heaviest.
func (m *Method) describeRecent(kind loadKind, second int64) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf("; %s caused most of it: %s in %d s", m.name, m.recent.describe(kind), second-m.since+1)
}

// blamed returns the method that is to blame for the peer's state, or nil if no load was counted.
//
// It's the method with the most blocked calls or, if none were blocked, the method with the
// greatest load of the kind whose quota was reached last. Only calls since the state began count.
// If there are none, blamed falls back to the previous state.
func (p *Peer) blamed() (top *Method) {
	for _, m := range p.methods {
		switch {
		case m.exempt, top != nil && m.stay < top.stay:
		case top == nil, m.stay > top.stay, m.blocked > top.blocked:
			top = m
		case m.blocked == top.blocked && m.inState.hasMore(p.kind, top.inState):
			top = m
		}
	}
	return top
}

// describeBlamed returns the name of the method that is to blame, and its load, as part of a
// reason.
func (p *Peer) describeBlamed() string {
	top := p.blamed()
	switch {
	case top == nil:
		return ""
	case top.blocked > 0:
		return fmt.Sprintf(" with %s: %s, %d of them blocked", top.name, words.Plural(top.inState.Calls, "call", "calls"), top.blocked)
	}
	return fmt.Sprintf(" with %s: %s", top.name, top.inState.describe(p.kind))
}

// keepOnlyBlamed is called when the peer has left. It drops all methods except the one that is to
// blame.
func (p *Peer) keepOnlyBlamed() {
	top := p.blamed()
	p.methods = nil
	if top != nil {
		p.methods = []*Method{top}
	}
}

// A Count counts the calls of one method and their cost.
type Count struct {
	Method  string        // "Class.Method"
	Calls   uint64        // calls that arrived, including blocked ones
	Blocked uint64        // calls, included in Calls, that [State].Repeat blocked
	Bytes   uint64        // of the arguments of all calls
	Time    time.Duration // of handlers, including decoding and checks
}

// Add counts one call.
func (c *Count) Add(bytes int, took time.Duration, ran bool) {
	c.Calls++
	c.Bytes += uint64(bytes)
	c.Time += took
	if !ran {
		c.Blocked++
	}
}
