package dos

import (
	"fmt"
	"time"
)

// A Method counts a peer's use of one method.
type Method struct {
	name      string
	exempt    bool // it is in Profile.Exempt
	unblocked bool // it is in Profile.Unblocked

	recent Load  // load since the second from
	from   int64 // at most blameTime ago

	// Counted since the peer's current stay began.
	inState Load   // load of all calls
	blocked int    // number of blocked calls
	stay    uint64 // the stay.number in which they were counted

	ran   Load      // load of the calls that ran in the RepeatWindow
	until time.Time // end of that RepeatWindow; zero = none has begun
	state int       // the state whose RepeatWindow it is
}

// blameTime is the number of seconds over which methods are compared to find the one to
// blame. It is as long as the longest window.
const blameTime = maxWindow

// Method returns the peer's record of a method, "Class.Method". The first call makes the
// record. Keep the record, because Method searches for it.
//
// Names must be those that the program declares. Otherwise a client could increase their number.
func (p *Peer) Method(name string) *Method {
	for _, m := range p.methods {
		if m.name == name {
			return m
		}
	}
	d := p.detector
	m := &Method{name: name, exempt: names(d.profile.Exempt, name), unblocked: names(d.profile.Unblocked, name)}
	p.methods = append(p.methods, m)
	return m
}

// add counts load in the peer's current second and state.
func (m *Method) add(second int64, stay uint64, load Load) {
	if m.stay != stay {
		m.inState = Load{}
		m.blocked = 0
		m.stay = stay
	}
	m.inState.add(load)
	if second-m.from >= blameTime {
		m.recent = Load{}
		m.from = second
	}
	m.recent.add(load)
}

// blocks reports whether the state's Repeat blocks a call. If not, it counts the call.
func (p *Peer) blocks(m *Method, bytes int) bool {
	s := &p.detector.profile.States[p.state]
	if s.Repeat == (Load{}) {
		return false
	}
	now := p.detector.now
	if m.state != p.state || !now.Before(m.until) {
		m.ran = Load{}
		m.state = p.state
		m.until = now.Add(s.RepeatWindow)
	}
	if s.Repeat.reached(m.ran) != "" {
		return true
	}
	m.ran.add(Load{Calls: 1, Bytes: bytes})
	return false
}

// most returns the method with the greatest load of a kind, or nil if there is none.
func (p *Peer) most(kind string) (top *Method) {
	for _, m := range p.methods {
		if p.second-m.from < blameTime && !m.exempt && (top == nil || m.recent.more(kind, top.recent)) {
			top = m
		}
	}
	return top
}

// recently returns, for a reason, the name of a method that most
// returned, and its load until the given second.
func (m *Method) recently(kind string, second int64) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf("; most is of %s: %s in %d s", m.name, m.recent.of(kind), second-m.from+1)
}

// blamed returns the method to blame for the peer's state, or nil if no load was counted.
//
// This is the method of which the state blocked the most calls. If it blocked none, it is the
// method with the greatest load of the kind that was reached last. Both are counted since the
// state began. If there was no load since then, the counts of the state before are used.
func (p *Peer) blamed() (top *Method) {
	for _, m := range p.methods {
		switch {
		case m.exempt, top != nil && m.stay < top.stay:
		case top == nil, m.stay > top.stay, m.blocked > top.blocked:
			top = m
		case m.blocked == top.blocked && m.inState.more(p.kind, top.inState):
			top = m
		}
	}
	return top
}

// mostInState returns, for a reason, the name and load of the method that blamed returns.
func (p *Peer) mostInState() string {
	top := p.blamed()
	switch {
	case top == nil:
		return ""
	case top.blocked > 0:
		return fmt.Sprintf(" with %s: %d calls, %d of them blocked", top.name, top.inState.Calls, top.blocked)
	}
	return fmt.Sprintf(" with %s: %s", top.name, top.inState.of(p.kind))
}

// shorten is called when the peer has left. It drops all methods
// except the one that blamed returns.
func (p *Peer) shorten() {
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
