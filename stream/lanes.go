package stream

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// laneIdle is how long no part has travelled, either way, when a client lets go of the lanes that were opened for a transfer.
const laneIdle = 10 * time.Second

const (
	// A server opens at most mostOpenings lanes for a connection in openingTime: all that there can be, twice as often as an honest client can
	// let go of them. A client that lets go of lanes as soon as they are open gets no more until that time is over.
	openingTime  = laneIdle / 2
	mostOpenings = maxLanes
)

// widenPause is the least time between two looks of widen at the path: under World.Run, ticks may come every few microseconds.
const widenPause = time.Millisecond

// lanes decides how many lanes a peer has. A lane is an actor whose channel, with a reliable buffer of its own, carries parts of transfers;
// [window] has the lanes themselves, and sends on them. A transfer asks for as many as fill its path. Only the server opens and closes lanes: a
// client asks for more in its limits, and lets go of those that are idle. The type belongs to the world's goroutine, except waking.
type lanes struct {
	peer *Peer

	asked   int       // how many lanes there should be; a client tells the server in its limits
	stay    int       // how many were opened with the connection, and stay; 0 at a client until the server's limits come
	widened time.Time // when widen last looked at the path

	// Used by a server, which opens at most mostOpenings lanes in openingTime.
	opened      int       // lanes opened since openedSince
	openedSince time.Time // when opened was last set to 0

	// Used by a client.
	touched bool         // a lane was opened, or a part has arrived, since the last tick; bindPipes sets it
	used    time.Time    // the last tick that found touched set, or a transfer that sends on lanes
	parting []*rpc.Actor // this client has let go of them, and the server has yet to close them
	timer   *time.Timer  // wakes a world that waits for events once lanes may have been idle for laneIdle
	waking  atomic.Bool  // the timer runs; its goroutine clears it
}

func (l *lanes) onServer() bool { return l.peer.streams.world.IsServer() }

// begin opens, on a server, the lanes that stay: one even if the backend is not [Window], for transfers that choose Window by [Via].
func (l *lanes) begin(backend Backend) error {
	l.asked = 1
	if w := backend.window(); w != nil {
		l.asked = cmp.Or(w.Lanes, defaultLanes)
	}
	l.stay = l.asked
	return l.peer.window.grow(l.asked)
}

// stop ends the timer.
func (l *lanes) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// onLimits takes the number of lanes in the peer's limits: a client learns how many stay, a server how many its client wants.
func (l *lanes) onLimits(n int) {
	switch {
	case !l.onServer():
		l.stay = n
	case n > l.asked:
		l.asked = n // for the next tick
	}
}

// want asks for lanes for t, whose header leaves now: as many as its Window names, or as many as fill the path and t can fill.
func (l *lanes) want(t *Transfer) error {
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
// as before if all are full. A transfer whose Window names their number asks for that again, because ask refuses while lanes are closing.
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

// ask opens lanes until there are n; a client asks the server to. It does nothing while lanes that a client has let go of are closing.
func (l *lanes) ask(n int) error {
	if n <= max(l.asked, len(l.peer.window.lanes)) || l.closing() {
		return nil
	}
	l.asked = n
	if l.onServer() {
		return l.open(l.peer.streams.lastTick)
	}
	l.peer.control.limitsChanged()
	return nil
}

// tick runs whenever a tick of the world looks at the peer: a server opens the lanes that are missing, a client lets go of idle ones.
func (l *lanes) tick(now time.Time) error {
	if l.onServer() {
		return l.open(now)
	}
	return l.letGo(now)
}

// open opens, on a server, the lanes that are missing, but at most mostOpenings in openingTime; later ticks open the others.
func (l *lanes) open(now time.Time) error {
	window := l.peer.window
	before := len(window.lanes)
	if now.Sub(l.openedSince) >= openingTime {
		l.openedSince, l.opened = now, 0
	}
	want := min(l.asked, before+mostOpenings-l.opened)
	err := window.grow(want)
	l.opened += len(window.lanes) - before
	if len(window.lanes) < want { // the connection has no channel left: try again after openingTime, not in each tick
		l.opened = mostOpenings
	}
	return err
}

// letGo lets go, on a client, of the lanes that do not stay, once no lane has been used for laneIdle. A message on each of them tells the server,
// which alone can close it, that nothing more comes there.
func (l *lanes) letGo(now time.Time) error {
	w := l.peer.window
	if l.touched || l.peer.sender.usesLanes() {
		l.touched, l.used = false, now
	}
	if l.stay == 0 || len(w.lanes) <= l.stay {
		return nil
	}
	if wait := laneIdle - now.Sub(l.used); wait > 0 {
		l.wakeAfter(wait)
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

// closing reports, on a client, whether the server has yet to close lanes that the client has let go of; it forgets those that are closed. The
// client asks for no more until then, because the server would count them as open.
func (l *lanes) closing() bool {
	l.parting = slices.DeleteFunc(l.parting, func(a *rpc.Actor) bool { return !a.Alive() })
	return len(l.parting) > 0
}

// wakeAfter wakes the world after d, to look at the peer, unless the timer runs already.
func (l *lanes) wakeAfter(d time.Duration) {
	if l.waking.Swap(true) {
		return
	}
	l.timer = time.AfterFunc(d, func() {
		l.waking.Store(false)
		l.peer.wake()
	})
}

// onLeave closes, on a server, a lane that its client has let go of. Parts on their way to the client arrive before the close.
func (l *lanes) onLeave(lane *rpc.Actor) {
	w := l.peer.window
	if i := slices.Index(w.lanes, lane); i >= 0 && len(w.lanes) > l.stay {
		w.lanes = slices.Delete(w.lanes, i, i+1)
		l.asked = len(w.lanes)
		if err := l.peer.streams.world.Destroy(lane); err != nil {
			l.peer.fail(err)
		}
		return
	}
	l.peer.violate("a lane was let go, of %d that stay", l.stay)
}
