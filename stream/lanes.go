package stream

import (
	"cmp"
	"slices"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// widenPause is the least time between two looks of widen at the path: under World.Run, ticks may come every few microseconds.
const widenPause = time.Millisecond

// laneIdle is how long no part has travelled, either way, when a client lets go of the lanes that were opened for a transfer.
const laneIdle = 10 * time.Second

const (
	// A server opens at most mostOpenings lanes for a connection in openingTime: all that there can be, twice as often as an honest client can
	// let go of them. A client that lets go of lanes as soon as they are open gets no more until that time is over.
	openingTime  = laneIdle / 2
	mostOpenings = maxLanes
)

// lanes decides how many lanes a peer should have: as many as its transfers fill. A lane is an actor whose channel, with a reliable buffer of
// its own, carries parts of transfers. [window] has those that are open, and sends on them. Only a server opens and closes lanes; its client asks
// for more in its limits message, and lets go of those that are idle. It belongs to the world's goroutine.
type lanes struct {
	peer    *Peer
	asked   int       // how many lanes there should be; a client tells its server in its limits message
	stay    int       // how many were opened with the connection, and stay; at a client 0 until the server's limits message comes
	widened time.Time // when widen last looked at the path

	// At a server: at most mostOpenings lanes are opened in openingTime.
	opened      int       // lanes opened since openedSince; mostOpenings, too, once the connection had no channel left
	openedSince time.Time // when opened was last set to 0

	// At a client: whether the lanes are idle.
	touched bool         // a lane was opened, or a part has arrived on one, since the last tick; nobody asks at a server
	used    time.Time    // the last tick that found touched set, or a transfer that sends on lanes
	idle    alarm        // has a tick come once lanes may have been idle for laneIdle
	parting []*rpc.Actor // this end has let go of them, and the server has yet to close them
}

func (l *lanes) onServer() bool { return l.peer.streams.world.IsServer() }

// start asks for lanes for t, whose header leaves now: as many as its Window names, or as many as fill the path and t can fill.
func (l *lanes) start(t *Transfer) error {
	w := t.opts.window
	switch {
	case w == nil:
		return nil
	case w.Lanes != 0:
		return l.ask(w.Lanes)
	}
	if most := lanesFilledBy(t.left()); most > 1 {
		return l.ask(min(l.peer.window.pathLanes(), most))
	}
	return nil
}

// lanesFilledBy returns how many lanes the bytes that are left of a transfer fill. More would carry nothing, and each costs both ends an actor:
// without this bound two hundred clients that took 1 MiB each opened twenty lanes each.
func lanesFilledBy(left int64) int { return int(min((left+laneBytes-1)/laneBytes, maxLanes)) }

// widen asks for more lanes for a transfer that has found the gates of all lanes closed: as many as fill the path now, and at least twice as many
// as before if all are full. A transfer whose Window names their number asks for that again, because a client that waits for lanes to close does
// not ask.
func (l *lanes) widen(t *Transfer) error {
	w := t.opts.window
	switch {
	case w == nil:
		return nil
	case w.Lanes != 0:
		return l.ask(w.Lanes)
	}
	now, window := l.peer.streams.lastTick, l.peer.window
	most := min(len(window.lanes)+lanesFilledBy(t.left()), maxLanes)
	if len(window.lanes) < l.asked || l.asked >= most || now.Sub(l.widened) < widenPause {
		return nil
	}
	l.widened = now
	n := window.pathLanes()
	if window.full(w) {
		n = max(n, 2*l.asked)
	}
	return l.ask(min(n, most))
}

// ask raises the number of lanes to n, if it is lower: a server opens them, a client asks its server for them unless others are closing.
func (l *lanes) ask(n int) error {
	if n <= max(l.asked, len(l.peer.window.lanes)) {
		return nil
	}
	if l.onServer() {
		l.asked = n
		return l.open(l.peer.streams.lastTick)
	}
	if !l.closing() {
		l.asked = n
		l.peer.control.limitsChanged()
	}
	return nil
}

// onLimits takes the number of lanes in the peer's limits message: a server learns how many its client wants, a client how many stay.
func (l *lanes) onLimits(n int) {
	if l.onServer() {
		l.asked = max(l.asked, n) // for the next tick
		return
	}
	l.stay = n
}

// tick runs whenever a tick of the world looks at the peer: a server opens the lanes that are missing, a client lets go of idle ones.
func (l *lanes) tick(now time.Time) error {
	if l.onServer() {
		return l.open(now)
	}
	return l.letGo(now)
}

// begin opens the lanes that stay: one even if the backend is not [Window], for transfers that choose Window by [Via].
func (l *lanes) begin(backend Backend) error {
	stay := 1
	if w := backend.window(); w != nil {
		stay = cmp.Or(w.Lanes, defaultLanes)
	}
	l.stay, l.asked = stay, stay
	return l.peer.window.grow(stay)
}

// open opens the lanes that are missing, but at most mostOpenings in openingTime, and none in place of those that the client has let go of and not
// acknowledged; later ticks open the others.
func (l *lanes) open(now time.Time) error {
	window := l.peer.window
	before := len(window.lanes)
	if now.Sub(l.openedSince) >= openingTime {
		l.openedSince, l.opened = now, 0
	}
	want := min(l.asked, before+mostOpenings-l.opened)
	if len(window.parting) > 0 && want > before {
		window.unacked() // forgets those that are acknowledged
		want = min(want, max(before, maxLanes-len(window.parting)))
	}
	err := window.grow(want)
	l.opened += len(window.lanes) - before
	if len(window.lanes) < want { // the connection has no channel left: try again after openingTime, not in each tick
		l.opened = mostOpenings
	}
	return err
}

// onLeave closes a lane that the client has let go of. Parts on their way to the client arrive before the close.
func (l *lanes) onLeave(lane *rpc.Actor) {
	w := l.peer.window
	if i := slices.Index(w.lanes, lane); i >= 0 && len(w.lanes) > l.stay {
		w.lanes = slices.Delete(w.lanes, i, i+1)
		w.parting = append(w.parting, lane.Channel(l.peer.conn))
		l.asked = len(w.lanes)
		if err := l.peer.streams.world.Destroy(lane); err != nil {
			l.peer.fail(err)
		}
		return
	}
	l.peer.violate("a lane was let go, of %d that stay", l.stay)
}

// letGo lets go of the lanes that do not stay, if they are idle. A message on each of them tells the server, which alone can close it, that nothing
// more comes there.
func (l *lanes) letGo(now time.Time) error {
	w, stay := l.peer.window, l.stay
	if l.touched || l.peer.sender.usesLanes() {
		l.touched, l.used = false, now
	}
	if stay == 0 || len(w.lanes) <= stay {
		return nil
	}
	if wait := laneIdle - now.Sub(l.used); wait > 0 {
		l.idle.set(l.peer, wait)
		return nil
	}
	for _, lane := range w.lanes[stay:] {
		if err := leaveLane.Call(lane, nil); err != nil {
			return err
		}
	}
	l.parting = append(l.parting, w.lanes[stay:]...)
	clear(w.lanes[stay:])
	w.lanes = w.lanes[:stay]
	l.asked = stay
	return nil
}

// closing reports whether the server has yet to close lanes that this end has let go of; it forgets those that are closed. The client asks for
// no more until then, because the server would count them as open.
func (l *lanes) closing() bool {
	l.parting = slices.DeleteFunc(l.parting, func(a *rpc.Actor) bool { return !a.Alive() })
	return len(l.parting) > 0
}
