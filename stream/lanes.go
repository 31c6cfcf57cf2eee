package stream

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/rpc"
)

// laneIdle is how long no part must travel, either way, before a client lets go of the lanes that were opened for a transfer.
const laneIdle = 10 * time.Second

const (
	// mostOpenings is how many lanes a server opens for a connection within openingTime: all that there can be, twice as often as an
	// honest client lets go of idle ones. A client that lets go of lanes at once gets no more until that time is over.
	openingTime  = laneIdle / 2
	mostOpenings = maxLanes
)

// widenPause is the least time between two looks at the path by widen: under Run, ticks may come every few microseconds.
const widenPause = time.Millisecond

// lanes opens and closes the lanes of a peer, on which [window] sends. A transfer asks for as many as fill its path. Only the server
// opens and closes lanes: a client asks for more in its limits, and lets go of those that are idle. It belongs to the world's goroutine.
type lanes struct {
	peer *Peer

	asked   int       // lanes that there are to be; a client asks for them in its limits
	stay    int       // lanes that were opened with the connection, and stay; 0 at a client until the server has told it
	widened time.Time // when widen last looked at the path

	// Used by a server, which opens at most mostOpenings lanes in openingTime.
	opened      int       // lanes opened since openedSince
	openedSince time.Time // when opened was last set to 0

	// Used by a client.
	touched bool         // a lane or a part has come since used
	used    time.Time    // when a tick last found touched set, or a transfer that sends on lanes
	parting []*rpc.Actor // let go by this client, and not closed by the server yet
	timer   *time.Timer  // wakes a world that waits for events when lanes may have been idle for laneIdle
	waking  atomic.Bool  // the timer runs
}

func (l *lanes) onServer() bool { return l.peer.streams.world.IsServer() }

// begin opens, on a server, the lanes that stay. There is one even if the backend is not [Window], for transfers that choose it by [Via].
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

// want opens lanes for t, whose header leaves now: as many as it names, or as fill the path.
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

// lanesFilledBy returns how many lanes the bytes that are left fill. More would have nothing to carry, and each costs both ends an actor: without this bound
// two hundred clients that took 1 MiB each opened twenty lanes.
func lanesFilledBy(left int64) int { return int(min((left+laneBytes-1)/laneBytes, maxLanes)) }

// widen opens more lanes for a transfer that found all gates closed: as many as fill the path now, and at least twice as many when the
// lanes are full. A transfer that names its number asks again, for lanes may have been closing when it began.
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

// ask opens lanes until there are n, or asks the server for them.
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

// tick, which runs in each tick of the world, keeps the number of lanes right: a server opens the lanes that are missing, a client lets go of idle ones.
func (l *lanes) tick(now time.Time) error {
	if l.onServer() {
		return l.open(now)
	}
	return l.letGo(now)
}

// open opens, on a server, the lanes that are missing, as far as mostOpenings lets it; a later tick opens the others.
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

// letGo lets go, on a client, of the lanes that do not stay, once no lane was used for laneIdle. Its message on each lane tells the
// server, which alone can close it, that nothing more comes there.
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

// closing reports, on a client, whether the server has yet to close lanes that were let go. Until then the client asks for no more:
// the server would count those as open.
func (l *lanes) closing() bool {
	l.parting = slices.DeleteFunc(l.parting, func(a *rpc.Actor) bool { return !a.Alive() })
	return len(l.parting) > 0
}

// wakeAfter has a tick look at the peer after d, unless the timer runs already.
func (l *lanes) wakeAfter(d time.Duration) {
	if l.waking.Swap(true) {
		return
	}
	l.timer = time.AfterFunc(d, func() {
		l.waking.Store(false)
		l.peer.wake()
	})
}

// onLeave closes, on a server, a lane that its client has let go. Parts on their way to the client arrive before the close.
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
