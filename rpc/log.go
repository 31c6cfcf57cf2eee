package rpc

import (
	"errors"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/logs"
)

// warnEvery is the shortest time between two warnings for one reason, of one connection, of those that have not joined, or of
// one method.
const warnEvery = time.Second

// warnGate lets one warning a second through and counts the others.
type warnGate struct {
	last   time.Time
	hidden int
}

// What strangers can make a world warn about, so that each kind is written once a second at most.
const (
	warnRetry = iota
	warnRefused
	warnFailed
	warnLogin
	warnKinds
)

// warn writes a warning about strangers, unless one of its kind was written within the last second: then it is counted.
func (w *World) warn(kind int, message string, args ...any) {
	w.warnMu.Lock()
	hidden, ok := w.warns[kind].pass(time.Now())
	w.warnMu.Unlock()
	if !ok {
		return
	}
	if hidden > 0 {
		args = append(args, "hidden", hidden)
	}
	w.log.Warn(message, args...)
}

// pass reports whether a warning may be written, and how many were not since the last one.
func (g *warnGate) pass(now time.Time) (hidden int, ok bool) {
	if !g.last.IsZero() && now.Sub(g.last) < warnEvery && !now.Before(g.last) {
		g.hidden++
		return 0, false
	}
	hidden, g.hidden, g.last = g.hidden, 0, now
	return hidden, true
}

// callFailed logs an error that Call returns, at most once a second for each method. That an actor or its connection is
// gone is no mistake, and is logged where it ended.
func (w *World) callFailed(m *method, err error) {
	if errors.Is(err, ErrClosed) {
		return
	}
	gate := w.failed[m]
	hidden, ok := gate.pass(time.Now()) // the world's own time stands still between ticks
	w.failed[m] = gate
	if ok {
		w.log.Warn("call failed", "rpc", m.String(), "error", err, "more", hidden)
	}
}

// logSent tells of a call that waits for its packet. UE: net.Reliable.Debug, LogNetPartialBunch.
func (c *Conn) logSent(to *opening, m *method, bytes int) {
	entries := bunch.Entries(bytes)
	if log := c.world.logs.Debug(logs.Partial); log != nil && entries > 1 {
		log.Debug("sent in parts", "conn", c, "rpc", m.String(), "channel", to.channel, "bytes", bytes, "entries", entries)
	}
	if log := c.world.logs.Debug(logs.Reliable); log != nil && m.delivery <= bunch.ReliableUnordered {
		out, slots := Channel{c, to.channel}.Reliable()
		log.Debug("sent", "conn", c, "rpc", m.String(), "channel", to.channel, "bytes", bytes, "entries", entries, "out", out, "slots", slots)
	}
}

// logReceived tells of a call from the peer that is about to run, or to be refused.
func (c *Conn) logReceived(a *Actor, m *method, bytes int) {
	if log := c.world.logs.Debug(logs.Partial); log != nil && bytes > bunch.EntryBytes {
		log.Debug("put together", "conn", c, "rpc", m.String(), "actor", a, "bytes", bytes)
	}
	if log := c.world.logs.Debug(logs.Reliable); log != nil && m.delivery <= bunch.ReliableUnordered {
		log.Debug("received", "conn", c, "rpc", m.String(), "actor", a, "bytes", bytes)
	}
}

// logOpened tells that a channel of an actor opened, here or by the server.
func (c *Conn) logOpened(a *Actor, channel uint64) {
	if log := c.world.logs.Debug(logs.Channel); log != nil {
		log.Debug("opened", "conn", c, "actor", a, "channel", channel)
	}
}

// logClosed tells that it closed.
func (c *Conn) logClosed(a *Actor, channel uint64, why CloseReason) {
	if log := c.world.logs.Debug(logs.Channel); log != nil {
		log.Debug("closed", "conn", c, "actor", a, "channel", channel, "reason", why.String())
	}
}

// logActor tells something of an actor at a connection.
func (c *Conn) logActor(of logs.Category, what string, a *Actor) {
	if log := c.world.logs.Debug(of); log != nil {
		log.Debug(what, "conn", c, "actor", a)
	}
}

// logUpdates tells what a Flush handed over of states.
func (c *Conn) logUpdates() {
	if log := c.world.logs.Debug(logs.Rep); log != nil && (c.state.given > 0 || c.state.held) {
		log.Debug("states sent", "conn", c, "bytes", c.state.given, "actors waiting", len(c.state.dirty), "held", c.state.held)
	}
}
