package dos

import (
	"fmt"
	"time"
)

// Method is what a peer uses of one method.
type Method struct {
	name      string
	exempt    bool
	unblocked bool

	recent Load  // since the second from, at most blameTime ago
	from   int64 // when recent began

	inState Load // in the state that is the visit-th of the peer
	visit   uint64

	ran   Load      // within the RepeatWindow until until
	until time.Time // zero: none began
	state int       // whose window it is
}

// blameTime is how many seconds of a method's use are asked for the one that has most: as long as the longest window.
const blameTime = maxWindow

// Method returns what the peer uses of a method, "Class.Method". The first call for a name makes it: names are the program's, and so
// there are not more than it declares. Keep what it returns: it searches.
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

func (m *Method) add(second int64, visit uint64, load Load) {
	if m.visit != visit {
		m.inState, m.visit = Load{}, visit
	}
	m.inState.add(load)
	if second-m.from >= blameTime {
		m.recent, m.from = Load{}, second
	}
	m.recent.add(load)
}

// blocks reports whether a call is beyond what the state lets run of its method, and counts it if not.
func (p *Peer) blocks(m *Method, bytes int) bool {
	s := &p.detector.profile.States[p.state]
	if s.Repeat == (Load{}) {
		return false
	}
	if now := p.detector.now; m.state != p.state || !now.Before(m.until) {
		m.ran, m.state, m.until = Load{}, p.state, now.Add(s.RepeatWindow)
	}
	if _, ok := s.Repeat.reached(m.ran); ok {
		return true
	}
	m.ran.add(Load{Calls: 1, Bytes: bytes})
	return false
}

// most names the method that has most of a kind, and how much.
func (p *Peer) most(kind string) string {
	var top *Method
	for _, m := range p.methods {
		if p.second-m.from < blameTime && !m.exempt && (top == nil || m.recent.more(kind, top.recent)) {
			top = m
		}
	}
	if top == nil {
		return ""
	}
	return fmt.Sprintf("; most is of %s: %s in %d s", top.name, top.recent.of(kind), p.second-top.from+1)
}

// blamed returns the method that has most of what led into the state since then, or else in the state before; nil when nothing counted.
func (p *Peer) blamed() (top *Method) {
	for _, m := range p.methods {
		if !m.exempt && (top == nil || m.visit > top.visit || m.visit == top.visit && m.inState.more(p.kind, top.inState)) {
			top = m
		}
	}
	return top
}

// mostInState names that method.
func (p *Peer) mostInState() string {
	top := p.blamed()
	if top == nil {
		return ""
	}
	return fmt.Sprintf("; most is of %s: %s", top.name, top.inState.of(p.kind))
}

// shorten keeps no other method, for a peer that has left.
func (p *Peer) shorten() {
	top := p.blamed()
	if p.methods = nil; top != nil {
		p.methods = []*Method{top}
	}
}

// Count is what was called of one method, and what that cost.
type Count struct {
	Method  string        // "Class.Method"
	Calls   uint64        // that came, blocked ones included
	Blocked uint64        // of them, by [State].Repeat
	Bytes   uint64        // of all
	Time    time.Duration // of handlers, with decoding and checks
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
