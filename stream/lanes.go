package stream

import (
	"cmp"
	"slices"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// widenPause is the least time between two measurements of the path by widen,
// because under World.Run there may be a tick every few microseconds.
const widenPause = time.Millisecond

// laneIdle is for how long no part must have been sent, in either direction,
// before a client releases the lanes that were opened for a transfer.
const laneIdle = 10 * time.Second

const (
	// A server opens at most maxOpenings lanes for a connection in openingTime: as many
	// as there can be, and twice as often as an honest client can release them. A client
	// that releases lanes as soon as they are open gets no more until that time is over.
	openingTime = laneIdle / 2
	maxOpenings = maxLanes
)

// lanes decides how many lanes a peer should have: as many as its transfers fill. A lane is an
// actor whose channel, with a reliable buffer of its own, carries parts of transfers. [window]
// holds the open lanes, and sends on them. Only a server opens and closes lanes. Its client asks
// for more in its limits message, and releases idle ones. It is used on the world's goroutine only.
type lanes struct {
	peer  *Peer
	asked int // how many lanes there should be; a client sends it in its limits message
	// How many were opened with the connection, and stay open; 0 at a client
	// until the server's limits message arrives.
	stay    int
	widened time.Time // when widen last measured the path

	// At a server: at most maxOpenings lanes are opened in openingTime.
	opened      int       // lanes opened since openedSince; or maxOpenings, if the connection had no channel left
	openedSince time.Time // when opened was last set to 0

	// At a client: whether the lanes are idle.
	touched bool         // a lane was opened, or a part has arrived on one, since the last tick; not used at a server
	used    time.Time    // the last tick that found touched set, or a transfer that sends on lanes
	idle    alarm        // makes a tick happen when lanes may have been idle for laneIdle
	parting []*rpc.Actor // lanes that this end has released and the server has not closed yet
}

func (l *lanes) onServer() bool { return l.peer.streams.world.IsServer() }

// start asks for lanes for t, whose header is about to be sent: as many as its
// Window says, or as many as fill the path and t can fill.
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

// lanesFilledBy returns how many lanes the left bytes of a transfer fill. More
// would be of no use, and each costs both ends an actor: without this bound,
// two hundred clients that each downloaded 1 MiB opened twenty lanes each.
func lanesFilledBy(left int64) int { return int(min((left+laneBytes-1)/laneBytes, maxLanes)) }

// widen asks for more lanes for a transfer that has found the gates of all lanes
// closed: as many as fill the path now, and at least twice as many as before if
// all are full. For a transfer whose Window gives a number it asks for that
// number again, because a client that waits for lanes to close did not ask.
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

// ask raises the number of lanes to n, if it is lower. A server opens them; a
// client asks its server for them unless others are closing.
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

// onLimits handles the number of lanes in the peer's limits message. A server
// learns how many its client wants, a client how many stay open.
func (l *lanes) onLimits(n int) {
	if l.onServer() {
		l.asked = max(l.asked, n) // for the next tick
		return
	}
	l.stay = n
}

// tick is called when a tick of the world includes the peer. A server opens
// missing lanes; a client releases idle ones.
func (l *lanes) tick(now time.Time) error {
	if l.onServer() {
		return l.open(now)
	}
	return l.letGo(now)
}

// begin opens the lanes that stay open: one even if the backend is not
// [Window], for transfers that choose Window with [Via].
func (l *lanes) begin(backend Backend) error {
	stay := 1
	if w := backend.window(); w != nil {
		stay = cmp.Or(w.Lanes, defaultLanes)
	}
	l.stay, l.asked = stay, stay
	return l.peer.window.grow(stay)
}

// open opens missing lanes, but at most maxOpenings in openingTime, and none to replace
// lanes that the client has released but not fully acknowledged. Later ticks open the others.
func (l *lanes) open(now time.Time) error {
	window := l.peer.window
	before := len(window.lanes)
	if now.Sub(l.openedSince) >= openingTime {
		l.openedSince, l.opened = now, 0
	}
	want := min(l.asked, before+maxOpenings-l.opened)
	if len(window.parting) > 0 && want > before {
		window.unacked() // removes those that are acknowledged
		want = min(want, max(before, maxLanes-len(window.parting)))
	}
	err := window.grow(want)
	l.opened += len(window.lanes) - before
	if len(window.lanes) < want { // the connection has no channel left: try again after openingTime, not in each tick
		l.opened = maxOpenings
	}
	return err
}

// onLeave closes a lane that the client has released. Parts that are in flight
// to the client arrive before the close.
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

// letGo releases the lanes that need not stay open, if they are idle. A message on each of
// them tells the server, which alone can close it, that nothing more will arrive there.
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

// closing reports whether the server has yet to close lanes that this end has
// released; it removes the closed ones. Until then the client asks for no more,
// because the server would still count them as open.
func (l *lanes) closing() bool {
	l.parting = slices.DeleteFunc(l.parting, func(a *rpc.Actor) bool { return !a.Alive() })
	return len(l.parting) > 0
}
