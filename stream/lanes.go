package stream

import (
	"cmp"
	"slices"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// widenPause is the minimum time between two measurements of the path by widen. Under
// World.Run there may be a tick every few microseconds.
const widenPause = time.Millisecond

// laneIdle is the time without parts, in both directions, after which a client releases the
// lanes that were opened for a transfer.
const laneIdle = 10 * time.Second

const (
	// A server opens at most maxOpenings lanes for a connection in openingTime. That is the
	// maximum number of lanes, twice as often as an honest client can release them. A client
	// that releases lanes as soon as they are open gets no more until openingTime is over.
	openingTime = laneIdle / 2
	maxOpenings = maxLanes
)

// lanes decides how many lanes a peer should have: as many as its transfers fill. It is used
// on the world's goroutine only.
//
// A lane is an actor whose channel, with a reliable buffer of its own, carries parts of
// transfers. [window] holds the open lanes and sends on them. Only a server opens and closes
// lanes. Its client asks for more in its limits message, and releases idle ones.
type lanes struct {
	peer  *Peer
	asked int // number of lanes that the peer should have; a client sends it in its limits message
	// Lanes that were opened with the connection and stay open. It is 0 at a client until the
	// server's limits message arrives.
	stay    int
	widened time.Time // when widen last measured the path

	// At a server: limits the lanes opened in openingTime to maxOpenings.
	opened      int       // lanes opened since openedSince; maxOpenings if no channel was left
	openedSince time.Time // when opened was last reset

	// At a client: tracks whether the lanes are idle.
	touched bool         // a lane was opened, or a part arrived on one, since the last tick
	used    time.Time    // last tick that found touched set, or a transfer that sends on lanes
	idle    alarm        // makes a tick check for idle lanes
	parting []*rpc.Actor // lanes that this end has released and the server has not closed yet
}

func (l *lanes) onServer() bool { return l.peer.streams.world.IsServer() }

// start asks for lanes for t, whose header is about to be sent: the number that its Window
// sets or, if it sets none, as many as fill the path and t can fill.
func (l *lanes) start(t *Transfer) error {
	w := t.opts.window
	switch {
	case w == nil:
		return nil
	case w.Lanes != 0:
		return l.ask(w.Lanes)
	}
	filled := lanesFilledBy(t.left())
	if filled <= 1 {
		return nil
	}
	return l.ask(min(l.peer.window.pathLanes(), filled))
}

// lanesFilledBy returns the number of lanes that the left bytes of a transfer fill. More lanes
// are of no use, and each of them costs both ends an actor. Without this bound, two hundred
// clients that each downloaded 1 MiB opened twenty lanes each.
func lanesFilledBy(left int64) int { return int(min((left+laneBytes-1)/laneBytes, maxLanes)) }

// widen asks for more lanes for a transfer that found the gates of all lanes closed. It asks
// for as many as fill the path now, and for at least twice as many as before if all are full.
//
// If the transfer's Window sets a number, widen asks for that number again, because a client
// did not ask for it while it waited for lanes to close.
func (l *lanes) widen(t *Transfer) error {
	w := t.opts.window
	switch {
	case w == nil:
		return nil
	case w.Lanes != 0:
		return l.ask(w.Lanes)
	}

	now := l.peer.streams.lastTick
	window := l.peer.window
	limit := min(len(window.lanes)+lanesFilledBy(t.left()), maxLanes)
	if len(window.lanes) < l.asked || l.asked >= limit || now.Sub(l.widened) < widenPause {
		return nil
	}

	l.widened = now
	n := window.pathLanes()
	if window.full(w) {
		n = max(n, 2*l.asked)
	}
	return l.ask(min(n, limit))
}

// ask raises the number of lanes to n if it is lower. A server opens the lanes. A client asks
// its server for them, unless others are closing.
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

// onLimits handles the number of lanes in the peer's limits message. To a server it is the
// number that its client wants, and to a client the number that stay open.
func (l *lanes) onLimits(n int) {
	if l.onServer() {
		l.asked = max(l.asked, n) // the next tick opens them
		return
	}
	l.stay = n
}

// tick is called when a tick of the world includes the peer. A server opens missing lanes, and
// a client releases idle ones.
func (l *lanes) tick(now time.Time) error {
	if l.onServer() {
		return l.open(now)
	}
	return l.letGo(now)
}

// begin opens the lanes that stay open. One lane stays open even if the backend is not
// [Window], for transfers that choose Window with [Via].
func (l *lanes) begin(backend Backend) error {
	stay := 1
	if w := backend.window(); w != nil {
		stay = cmp.Or(w.Lanes, defaultLanes)
	}
	l.stay = stay
	l.asked = stay
	return l.peer.window.grow(stay)
}

// open opens missing lanes, but at most maxOpenings in openingTime. It opens none in place of
// lanes that the client has released but not fully acknowledged. Later ticks open the
// remaining ones.
func (l *lanes) open(now time.Time) error {
	window := l.peer.window
	before := len(window.lanes)
	if now.Sub(l.openedSince) >= openingTime {
		l.openedSince = now
		l.opened = 0
	}
	want := min(l.asked, before+maxOpenings-l.opened)
	if len(window.parting) > 0 && want > before {
		window.unacked() // removes lanes that are fully acknowledged
		want = min(want, max(before, maxLanes-len(window.parting)))
	}
	err := window.grow(want)
	l.opened += len(window.lanes) - before
	if len(window.lanes) < want {
		// The connection has no channel left. Try again after openingTime, not in each tick.
		l.opened = maxOpenings
	}
	return err
}

// onLeave closes a lane that the client has released. Parts in flight to the client arrive
// before the close.
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

// letGo releases the lanes that need not stay open, if they are idle. Only the server can
// close them. A message on each lane tells it that nothing more will arrive there.
func (l *lanes) letGo(now time.Time) error {
	w, stay := l.peer.window, l.stay
	if l.touched || l.peer.sender.usesLanes() {
		l.touched = false
		l.used = now
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

// closing reports whether the server still has to close lanes that this end has released. It
// removes the closed ones. While lanes are closing, the client does not ask for more, because
// the server would still count them as open.
func (l *lanes) closing() bool {
	l.parting = slices.DeleteFunc(l.parting, func(a *rpc.Actor) bool { return !a.Alive() })
	return len(l.parting) > 0
}
