package stream

import (
	"cmp"
	"slices"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// widenPause is the minimum time between two measurements of the path by widen. Under World.Run,
// there may be a tick every few microseconds.
const widenPause = time.Millisecond

// laneIdle is the time without parts in either direction after which a client releases the lanes
// that were opened for transfers.
const laneIdle = 10 * time.Second

const (
	// A server opens at most maxOpenings lanes for a connection in openingTime. This is enough to
	// open all lanes twice as often as an honest client can release them. A client that releases
	// lanes as soon as they're open gets no more until openingTime is over.
	openingTime = laneIdle / 2
	maxOpenings = maxLanes
)

// lanes decides how many lanes a peer should have: as many as its transfers can fill.
//
// A lane is an actor whose channel, with a reliable buffer of its own, carries parts of
// transfers. [window] holds the open lanes and sends on them. Only a server can open and close
// lanes. The client asks for more lanes in a limits message, and releases an idle lane by sending
// a last message on it.
//
// It is used on the world's goroutine only.
type lanes struct {
	peer *Peer

	asked   int       // number of lanes wanted; a client sends it in its limits message
	stay    int       // number that stay open; 0 at a client until the server's limits arrive
	widened time.Time // when widen last measured the path

	// At a server, these enforce the limit of maxOpenings in openingTime.
	opened      int       // lanes opened since openedSince; maxOpenings if no channel was left
	openedSince time.Time // when opened was last reset

	// At a client, these detect idle lanes.
	touched   bool         // a lane was opened, or a part arrived on one, since the last tick
	lastUsed  time.Time    // last tick in which touched was set or a transfer was using lanes
	idleAlarm alarm        // makes a tick check for idle lanes
	released  []*rpc.Actor // lanes that we have released and the server has yet to close
}

func (l *lanes) isServer() bool { return l.peer.streams.world.IsServer() }

// start asks for lanes for t, whose header is about to be sent. It asks for the number that t's
// Window sets. If the Window sets none, it asks for as many as fill the path, but for no more
// than t can fill.
func (l *lanes) start(t *Transfer) error {
	w := t.opts.window
	switch {
	case w == nil:
		return nil
	case w.Lanes != 0:
		return l.ask(w.Lanes)
	}
	filled := lanesFilledBy(t.unsentBytes())
	if filled <= 1 {
		return nil
	}
	return l.ask(min(l.peer.window.pathLanes(), filled))
}

// lanesFilledBy returns how many lanes the last left bytes of a transfer can fill. More lanes
// would be of no use, but each costs both ends an actor: 200 clients that each downloaded 1 MiB
// once opened 20 lanes each.
func lanesFilledBy(left int64) int { return int(min((left+laneBytes-1)/laneBytes, maxLanes)) }

// widen asks for more lanes for a transfer that has found the gates of all lanes closed. It asks
// for as many as fill the path now. If all lanes are full, it asks for at least twice as many as
// before.
//
// If the transfer's Window sets a number, widen asks for that number again. A client may have put
// off asking, because it was waiting for lanes to close.
func (l *lanes) widen(t *Transfer) error {
	w := t.opts.window
	switch {
	case w == nil:
		return nil
	case w.Lanes != 0:
		return l.ask(w.Lanes)
	}

	now := l.peer.streams.clock.lastTick
	window := l.peer.window
	limit := min(len(window.lanes)+lanesFilledBy(t.unsentBytes()), maxLanes)
	someAreOpening := len(window.lanes) < l.asked
	if someAreOpening || l.asked >= limit || now.Sub(l.widened) < widenPause {
		return nil
	}

	l.widened = now
	n := window.pathLanes()
	if window.full(w) {
		n = max(n, 2*l.asked)
	}
	return l.ask(min(n, limit))
}

// ask raises the number of lanes to n, unless there are as many already. A server opens the
// lanes. A client asks its server for them, unless others are closing.
func (l *lanes) ask(n int) error {
	if n <= max(l.asked, len(l.peer.window.lanes)) {
		return nil
	}
	if l.isServer() {
		l.asked = n
		return l.open(l.peer.streams.clock.lastTick)
	}

	// Until the server has closed the lanes that we've released, it counts them as open. Wait for
	// that, because widen will ask again.
	l.removeClosed()
	if len(l.released) == 0 {
		l.asked = n
		l.peer.control.limitsChanged()
	}
	return nil
}

// onLimits handles the number of lanes in the peer's limits message. A client sends the number of
// lanes that it wants, and a server sends the number that stay open.
func (l *lanes) onLimits(n int) {
	if l.isServer() {
		l.asked = max(l.asked, n) // the next tick opens them
		return
	}
	l.stay = n
}

// tick is called when a tick of the world includes the peer. A server opens missing lanes, and
// a client releases idle ones.
func (l *lanes) tick(now time.Time) error {
	if l.isServer() {
		return l.open(now)
	}
	return l.releaseIdle(now)
}

// begin opens the lanes that stay open. It's called at a server. Even if the backend isn't
// [Window], one lane stays open for transfers that choose Window with [Via].
func (l *lanes) begin(backend Backend) error {
	stay := 1
	if w := backend.window(); w != nil {
		stay = cmp.Or(w.Lanes, defaultLanes)
	}
	l.stay = stay
	l.asked = stay
	return l.peer.window.grow(stay)
}

// open opens missing lanes, but at most maxOpenings in openingTime. Lanes that the client has
// released, but not fully acknowledged, still count toward maxLanes. Later ticks open the rest.
func (l *lanes) open(now time.Time) error {
	window := l.peer.window
	before := len(window.lanes)
	if now.Sub(l.openedSince) >= openingTime {
		l.openedSince = now
		l.opened = 0
	}
	want := min(l.asked, before+maxOpenings-l.opened)
	if len(window.parting) > 0 && want > before {
		window.sweepParting() // removes lanes that are fully acknowledged
		want = min(want, max(before, maxLanes-len(window.parting)))
	}
	err := window.grow(want)
	l.opened += len(window.lanes) - before
	if len(window.lanes) < want {
		// The connection has no channel left. Don't try again in each tick, but only after
		// openingTime.
		l.opened = maxOpenings
	}
	return err
}

// onLeave closes a lane that the client has released. Parts in flight to the client arrive
// before the close does.
func (l *lanes) onLeave(lane *rpc.Actor) {
	w := l.peer.window
	i := slices.Index(w.lanes, lane)
	if i < 0 || len(w.lanes) <= l.stay {
		l.peer.violate("a lane was let go, of %d that stay", l.stay)
		return
	}
	w.lanes = slices.Delete(w.lanes, i, i+1)
	w.parting = append(w.parting, lane.Channel(l.peer.conn))
	l.asked = len(w.lanes)
	if err := l.peer.streams.world.Destroy(lane); err != nil {
		l.peer.fail(err)
	}
}

// releaseIdle releases the lanes that needn't stay open, once they're idle. Only the server can
// close them, so a message on each lane tells the server that nothing more will be sent on it.
func (l *lanes) releaseIdle(now time.Time) error {
	w, stay := l.peer.window, l.stay
	if l.touched || l.peer.sender.usesLanes() {
		l.touched = false
		l.lastUsed = now
	}
	if stay == 0 || len(w.lanes) <= stay {
		return nil // none to release, or the server's limits haven't arrived yet
	}
	if wait := laneIdle - now.Sub(l.lastUsed); wait > 0 {
		l.idleAlarm.set(l.peer, wait)
		return nil
	}
	for _, lane := range w.lanes[stay:] {
		if err := leaveLane.Call(lane, nil); err != nil {
			return err
		}
	}
	l.released = append(l.released, w.lanes[stay:]...)
	clear(w.lanes[stay:])
	w.lanes = w.lanes[:stay]
	l.asked = stay
	return nil
}

// removeClosed removes from released the lanes that the server has closed.
func (l *lanes) removeClosed() {
	l.released = slices.DeleteFunc(l.released, func(a *rpc.Actor) bool { return !a.Alive() })
}
