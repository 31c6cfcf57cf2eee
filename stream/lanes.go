package stream

import "time"

// widenPause is the least time between two looks of widen at the path: under World.Run, ticks may come every few microseconds.
const widenPause = time.Millisecond

// lanes decides how many lanes a peer should have: as many as its transfers fill. A lane is an actor whose channel, with a reliable buffer of
// its own, carries parts of transfers. [window] has those that are open, and sends on them. Only a server opens and closes lanes; its client asks
// for more in its limits, and lets go of those that are idle. Owned by the world's goroutine.
type lanes struct {
	peer    *Peer
	asked   int       // how many lanes there should be; a client tells its server in its limits
	stay    int       // how many were opened with the connection, and stay; at a client 0 until the server's limits come
	widened time.Time // when widen last looked at the path

	server serverLanes // used by a server alone
	client clientLanes // used by a client alone
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

// ask makes it n lanes if there should be fewer so far: a server opens them, a client asks its server for them unless others are closing.
func (l *lanes) ask(n int) error {
	if n <= max(l.asked, len(l.peer.window.lanes)) {
		return nil
	}
	if l.onServer() {
		l.asked = n
		return l.server.open(l.peer.streams.lastTick)
	}
	if !l.client.closing() {
		l.asked = n
		l.peer.control.limitsChanged()
	}
	return nil
}

// onLimits takes the number of lanes in the peer's limits: a server learns how many its client wants, a client how many stay.
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
		return l.server.open(now)
	}
	return l.client.letGo(now)
}
