package stream

import (
	"slices"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// laneIdle is after how long without a part either way a client lets the lanes go that were opened for a transfer.
const laneIdle = 10 * time.Second

const (
	// openingTime is in which time a server opens at most mostOpenings lanes for a connection: as many as there can be, and twice as
	// often as a client lets them go that have been idle. Who lets go what was just opened gets no more before that.
	openingTime  = laneIdle / 2
	mostOpenings = maxLanes
)

// widenPause spares ticks that follow each other at once the look at the path.
const widenPause = time.Millisecond

// lanes is what a peer knows of its lanes beside [window]. It belongs to the world's goroutine.
type lanes struct {
	asked   int       // that there are to be
	stay    int       // that are there from the beginning, and stay
	widened time.Time // when more were last thought of

	// A server's.
	opened  int       // lanes, since
	opening time.Time // the time in which mostOpenings may be opened began

	// A client's.
	touched bool         // a lane or a part came since used
	used    time.Time    // when a tick last knew that a part, or a lane, came or may leave
	parting []*rpc.Actor // let go, and not closed by the server yet
	timer   *time.Timer  // has a world that waits for events tick when lanes may have been idle for long
}

// wantLanes opens the lanes that t has from the beginning: those that it names, or what the path has place for.
func (p *Peer) wantLanes(t *Transfer) error {
	w, ok := t.opts.via.(Window)
	switch {
	case !ok || w.Lanes == 0 && t.header.size >= 0 && t.header.size <= laneBytes:
		return nil
	case w.Lanes == 0:
		return p.askLanes(p.window.pathLanes())
	}
	return p.askLanes(w.Lanes)
}

// widen opens more lanes for a transfer that may have them: as many as the path has been found to have place for, and twice as
// many at least when all that are open hold what they may.
func (p *Peer) widen(t *Transfer) error {
	w, ok := t.opts.via.(Window)
	now := p.streams.lastTick
	if !ok || w.Lanes != 0 || len(p.window.lanes) < p.lanes.asked || p.lanes.asked == maxLanes || now.Sub(p.lanes.widened) < widenPause {
		return nil
	}
	p.lanes.widened = now
	n := p.window.pathLanes()
	if p.window.full(w) {
		n = max(n, min(2*p.lanes.asked, maxLanes))
	}
	return p.askLanes(n)
}

// askLanes opens lanes until there are n, or asks the server for them.
func (p *Peer) askLanes(n int) error {
	if n <= max(p.lanes.asked, len(p.window.lanes)) || p.lanes.parts() {
		return nil
	}
	p.lanes.asked = n
	if p.streams.world.IsServer() {
		return p.openLanes(p.streams.lastTick)
	}
	p.greeted = false
	return nil
}

// keepLanes opens lanes that are due, and lets those go that were idle for long.
func (p *Peer) keepLanes(now time.Time) error {
	if p.streams.world.IsServer() {
		return p.openLanes(now)
	}
	return p.letLanesGo(now)
}

// openLanes opens, on a server, those lanes that there are to be and that may be opened by now; a later tick opens the others.
func (p *Peer) openLanes(now time.Time) error {
	l, before := &p.lanes, len(p.window.lanes)
	if now.Sub(l.opening) >= openingTime {
		l.opening, l.opened = now, 0
	}
	err := p.window.grow(min(l.asked, before+mostOpenings-l.opened))
	l.opened += len(p.window.lanes) - before
	return err
}

// letLanesGo lets, on a client, those lanes go that no transfer has used for long. It says so on each of them: the server, which
// alone can close them, then knows that nothing more comes there.
func (p *Peer) letLanesGo(now time.Time) error {
	l, w := &p.lanes, p.window
	if l.touched || p.sendsParts() {
		l.touched, l.used = false, now
	}
	if l.stay == 0 || len(w.lanes) <= l.stay {
		return nil
	}
	if wait := laneIdle - now.Sub(l.used); wait > 0 {
		p.wakeAfter(wait)
		return nil
	}
	for _, lane := range w.lanes[l.stay:] {
		if err := leaveLane.Call(lane, nil); err != nil {
			return err
		}
	}
	l.parting = append(l.parting, w.lanes[l.stay:]...)
	clear(w.lanes[l.stay:])
	w.lanes = w.lanes[:l.stay]
	l.asked = l.stay
	return nil
}

// sendsParts reports whether a transfer goes on whose parts travel on lanes.
func (p *Peer) sendsParts() bool {
	return slices.ContainsFunc(p.sending, func(t *Transfer) bool {
		_, ok := t.opts.via.(Window)
		return ok
	})
}

// parts reports, on a client, whether lanes that it let go are not closed yet: the server may take a wish for more to be one for
// those.
func (l *lanes) parts() bool {
	l.parting = slices.DeleteFunc(l.parting, func(a *rpc.Actor) bool { return !a.Alive() })
	return len(l.parting) > 0
}

// wakeAfter has the world tick then, unless it does so sooner.
func (p *Peer) wakeAfter(d time.Duration) {
	if p.lanes.timer != nil {
		return
	}
	p.lanes.timer = time.AfterFunc(d, func() {
		if p.conn.Err() == nil {
			p.streams.world.Post(func() { p.lanes.timer = nil })
		}
	})
}

// onLeaveLane closes, on a server, a lane that its client has let go. What still travels there to the client arrives before.
func (p *Peer) onLeaveLane(lane *rpc.Actor) {
	w := p.window
	if i := slices.Index(w.lanes, lane); i >= 0 && len(w.lanes) > p.lanes.stay {
		w.lanes = slices.Delete(w.lanes, i, i+1)
		p.lanes.asked = len(w.lanes)
		if err := p.streams.world.Destroy(lane); err != nil {
			p.streams.fail(p, err)
		}
		return
	}
	p.violate("a lane was let go, of %d that stay", p.lanes.stay)
}
