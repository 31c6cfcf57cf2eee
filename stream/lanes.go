package stream

import (
	"cmp"
	"slices"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// widenPause is the minimum time between two measurements of the path by widen, because there may
// be a tick every few microseconds under World.Run.
const widenPause = time.Millisecond

// laneIdle is the time without parts in either direction after which a client releases the lanes
// that were opened for transfers.
const laneIdle = 10 * time.Second

const (
	// A server opens at most maxOpenings lanes for a connection per openingTime. This is enough to
	// open all lanes twice as often as an honest client can release them. A client that releases
	// lanes as soon as they're open gets no more until openingTime has passed.
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

	wanted  int       // number of lanes wanted; a client sends it in its limits message
	kept    int       // number that stay open; 0 at a client until the server's limits arrive
	widened time.Time // when widen last measured the path

	// At a server, these enforce the limit of maxOpenings per openingTime.
	opened      int       // lanes opened since openedSince; maxOpenings if no channel was left
	openedSince time.Time // when opened was last reset

	// At a client, these detect idle lanes.
	touched   bool         // a lane was opened, or a part arrived on one, since the last tick
	lastUsed  time.Time    // last tick in which touched was set or a transfer was using lanes
	idleAlarm alarm        // wakes the peer to check for idle lanes
	released  []*rpc.Actor // lanes that we have released but the server has not closed yet
}

func (l *lanes) isServer() bool { return l.peer.streams.world.IsServer() }

// start asks for lanes for t, whose header is about to be sent. It asks for the number that t's
// Window sets or, if it sets none, for as many as fill the path, but no more than t can fill.
func (l *lanes) start(t *Transfer) error {
	return l.askFor(t, func(filled int) int { return min(l.peer.window.pathLanes(t.opts.window), filled) })
}

// askFor asks for lanes for t, unless its parts are sent as slices. It asks for the number that t's
// Window sets or, if it sets none, for the number that choose returns, given how many lanes t can
// fill.
func (l *lanes) askFor(t *Transfer, choose func(filled int) int) error {
	switch w := t.opts.window; {
	case w == nil:
		return nil
	case w.Lanes != 0:
		return l.ask(w.Lanes)
	default:
		return l.ask(choose(l.peer.window.lanesFilledBy(t.unsentBytes(), w)))
	}
}

// widen asks for more lanes for a transfer that found the gates of all lanes closed. It asks for as
// many as currently fill the path and, if all lanes are full, for at least twice as many as before.
//
// If the transfer's Window sets a number, widen asks for that number again, because a client may
// have postponed asking until the server has closed other lanes.
func (l *lanes) widen(t *Transfer) error {
	return l.askFor(t, func(filled int) int {
		now := l.peer.streams.clock.lastTick
		w, window := t.opts.window, l.peer.window
		limit := min(len(window.lanes)+filled, maxLanes)
		someAreOpening := len(window.lanes) < l.wanted
		if someAreOpening || l.wanted >= limit || now.Sub(l.widened) < widenPause {
			return l.wanted
		}

		l.widened = now
		n := window.pathLanes(w)
		if window.full(w) {
			n = max(n, 2*l.wanted)
		}
		return min(n, limit)
	})
}

// ask raises the number of wanted lanes to n. A server opens the missing ones. A client asks the
// server for them unless it's still waiting for others to be closed.
func (l *lanes) ask(n int) error {
	if n <= max(l.wanted, len(l.peer.window.lanes)) {
		return nil
	}
	if l.isServer() {
		l.wanted = n
		return l.open(l.peer.streams.clock.lastTick)
	}

	// The server counts the lanes that we've released as open until it has closed them. Until then,
	// do nothing: widen will ask again.
	l.removeClosed()
	if len(l.released) == 0 {
		l.wanted = n
		l.peer.control.limitsChanged()
	}
	return nil
}

// onOpen is called at both ends when a lane has been opened.
func (l *lanes) onOpen(lane *rpc.Actor) {
	w := l.peer.window
	if len(w.lanes) < maxLanes { // we don't send on more lanes than that
		w.lanes = append(w.lanes, lane)
		l.touch()
		l.peer.call()
	}
}

// touch makes the next tick consider the lanes in use.
func (l *lanes) touch() { l.touched = true }

// onLimits handles the number of lanes in the peer's limits message. A client sends the number of
// lanes that it wants, and a server sends the number that stay open.
func (l *lanes) onLimits(n int) {
	if l.isServer() {
		l.wanted = max(l.wanted, n) // the next tick opens them
		return
	}
	l.kept = n
}

// tick is called in each tick that includes the peer. A server opens missing lanes, and a client
// releases idle ones.
func (l *lanes) tick(now time.Time) error {
	if l.isServer() {
		return l.open(now)
	}
	return l.releaseIdle(now)
}

// begin opens the lanes that stay open. It's only called at a server. Even if the backend isn't
// [Window], one lane stays open for transfers that choose Window with [Via].
func (l *lanes) begin(backend Backend) error {
	l.kept = 1
	if w := backend.window(); w != nil {
		l.kept = cmp.Or(w.Lanes, defaultLanes)
	}
	l.wanted = l.kept
	return l.peer.window.grow(l.kept)
}

// open opens missing lanes, but at most maxOpenings per openingTime. Lanes that the client has
// released but not fully acknowledged still count toward maxLanes. Later ticks open the rest.
func (l *lanes) open(now time.Time) error {
	window := l.peer.window
	before := len(window.lanes)
	if now.Sub(l.openedSince) >= openingTime {
		l.openedSince = now
		l.opened = 0
	}
	want := min(l.wanted, before+maxOpenings-l.opened)
	if len(window.parting) > 0 && want > before {
		window.sweepParting() // forget the lanes that are fully acknowledged
		want = min(want, max(before, maxLanes-len(window.parting)))
	}
	err := window.grow(want)
	l.opened += len(window.lanes) - before
	if len(window.lanes) < want {
		// The connection has no channel left. Don't try again before openingTime has passed.
		l.opened = maxOpenings
	}
	return err
}

// onLeave closes a lane that the client has released. Parts that are in flight to the client still
// arrive before the close does.
func (l *lanes) onLeave(lane *rpc.Actor) {
	w := l.peer.window
	i := slices.Index(w.lanes, lane)
	if i < 0 || len(w.lanes) <= l.kept {
		l.peer.violate("client released a lane, but %d lanes must stay open", l.kept)
		return
	}
	w.lanes = slices.Delete(w.lanes, i, i+1)
	w.parting = append(w.parting, lane.Channel(l.peer.conn))
	l.wanted = len(w.lanes)
	if err := l.peer.streams.world.Destroy(lane); err != nil {
		l.peer.fail(err)
	}
}

// releaseIdle releases the lanes that needn't stay open once they're idle. Since only the server
// can close them, a message on each lane tells the server that nothing more will be sent on it.
func (l *lanes) releaseIdle(now time.Time) error {
	w, kept := l.peer.window, l.kept
	if l.touched || l.peer.sender.usesLanes() {
		l.touched = false
		l.lastUsed = now
	}
	if kept == 0 || len(w.lanes) <= kept {
		return nil // the server's limits haven't arrived yet, or there is no lane to release
	}
	if wait := laneIdle - now.Sub(l.lastUsed); wait > 0 {
		l.idleAlarm.set(l.peer, wait)
		return nil
	}
	for _, lane := range w.lanes[kept:] {
		if err := leaveMessage.Call(lane, nil); err != nil {
			return err
		}
	}
	l.released = append(l.released, w.lanes[kept:]...)
	clear(w.lanes[kept:])
	w.lanes = w.lanes[:kept]
	l.wanted = kept
	return nil
}

// removeClosed removes from released the lanes that the server has closed.
func (l *lanes) removeClosed() {
	l.released = slices.DeleteFunc(l.released, func(a *rpc.Actor) bool { return !a.Alive() })
}
