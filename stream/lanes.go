package stream

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/guest"
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

// widenPause is the shortest time between two looks at the path: under Run ticks may follow each other within microseconds.
const widenPause = time.Millisecond

// lanes opens and closes the lanes of a peer, on which [window] sends: a transfer asks for as many as its path has place for, the
// server opens them, a client lets those go that are idle, and then the server closes them. It belongs to the world's goroutine.
type lanes struct {
	peer *Peer

	asked   int       // how many there are to be; at a client, how many its limits ask for
	stay    int       // how many are opened with the connection, and never closed; 0 at a client until it is told
	widened time.Time // when widen last looked at the path

	// Used by a server: how many lanes it has opened since when, against mostOpenings.
	opened  int
	opening time.Time

	// Used by a client.
	touched bool         // a lane or a part has come since used
	used    time.Time    // when a tick last found that a part or a lane had come, or that a part may leave
	parting []*rpc.Actor // let go, and not closed by the server yet
	timer   *time.Timer  // has a world that waits for events tick when lanes may have been idle for laneIdle
	waking  atomic.Bool  // the timer runs
}

// begin opens, on a server, the lanes that are there from the beginning: one, where transfers use none by themselves.
func (l *lanes) begin(backend Backend) error {
	l.asked = 1
	if w, ok := backend.(Window); ok {
		l.asked = w.firstLanes()
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

// onLimits hears how many lanes stay, at a client, or how many its client wants, at a server.
func (l *lanes) onLimits(n int) {
	switch {
	case !l.peer.streams.world.IsServer():
		l.stay = n
	case n > l.asked:
		l.asked = n // for the next tick
	}
}

// want opens the lanes that t has from the beginning: those that it names, or what the path has place for.
func (l *lanes) want(t *Transfer) error {
	w, ok := t.opts.via.(Window)
	switch most := lanesOf(t.left()); {
	case !ok || w.Lanes == 0 && most <= 1:
		return nil
	case w.Lanes == 0:
		return l.ask(min(l.peer.window.pathLanes(), most))
	}
	return l.ask(w.Lanes)
}

// lanesOf is how many lanes hold so many bytes: more have nothing to carry. Each costs both ends an actor, and two hundred clients
// that took 1 MiB each opened twenty.
func lanesOf(left int64) int { return int(min((left+laneBytes-1)/laneBytes, maxLanes)) }

// widen opens more lanes for a transfer that may have them: as many as the path has been found to have place for, and twice as
// many at least when all that are open hold what they may; those that it names, where others were closing when it began.
func (l *lanes) widen(t *Transfer) error {
	w, ok := t.opts.via.(Window)
	if w.Lanes != 0 {
		return l.ask(w.Lanes)
	}
	now := l.peer.streams.lastTick
	most := min(len(l.peer.window.lanes)+lanesOf(t.left()), maxLanes)
	if !ok || len(l.peer.window.lanes) < l.asked || l.asked >= most || now.Sub(l.widened) < widenPause {
		return nil
	}
	l.widened = now
	n := l.peer.window.pathLanes()
	if l.peer.window.full(w) {
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
	if l.peer.streams.world.IsServer() {
		return l.open(l.peer.streams.lastTick)
	}
	l.peer.control.greeted = false
	return nil
}

// keep opens lanes that are due, and lets those go that were idle for long.
func (l *lanes) keep(now time.Time) error {
	if l.peer.streams.world.IsServer() {
		return l.open(now)
	}
	return l.letGo(now)
}

// open opens, on a server, those lanes that there are to be and that may be opened by now; a later tick opens the others.
func (l *lanes) open(now time.Time) error {
	before := len(l.peer.window.lanes)
	if now.Sub(l.opening) >= openingTime {
		l.opening, l.opened = now, 0
	}
	want := min(l.asked, before+mostOpenings-l.opened)
	err := l.peer.window.grow(want)
	l.opened += len(l.peer.window.lanes) - before
	if len(l.peer.window.lanes) < want { // the connection takes no more: not before openingTime is another look worth its cost
		l.opened = mostOpenings
	}
	return err
}

// letGo lets, on a client, those lanes go that no transfer has used for long. It says so on each of them: the server, which
// alone can close them, then knows that nothing more comes there.
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

// closing reports, on a client, whether the server has yet to close lanes that were let go: it could take a wish for more lanes to
// be one for those.
func (l *lanes) closing() bool {
	l.parting = slices.DeleteFunc(l.parting, func(a *rpc.Actor) bool { return !a.Alive() })
	return len(l.parting) > 0
}

// wakeAfter has the world tick then, unless it does so sooner.
func (l *lanes) wakeAfter(d time.Duration) {
	if l.waking.Swap(true) {
		return
	}
	l.timer = time.AfterFunc(d, func() {
		l.waking.Store(false)
		guest.Wake(l.peer.streams.world)
	})
}

// onLeave closes, on a server, a lane that its client has let go. What still travels there to the client arrives before.
func (l *lanes) onLeave(lane *rpc.Actor) {
	w := l.peer.window
	if i := slices.Index(w.lanes, lane); i >= 0 && len(w.lanes) > l.stay {
		w.lanes = slices.Delete(w.lanes, i, i+1)
		l.asked = len(w.lanes)
		if err := l.peer.streams.world.Destroy(lane); err != nil {
			l.peer.streams.fail(l.peer, err)
		}
		return
	}
	l.peer.violate("a lane was let go, of %d that stay", l.stay)
}
