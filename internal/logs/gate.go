package logs

import (
	"log/slog"
	"sync"
	"time"
)

// every is how far apart two warnings are at least that pass a [Gate].
const every = time.Second

// A Gate is a rate limiter for warnings. It passes one a second and counts all others. The zero
// Gate is ready to use. It is not safe for concurrent use.
type Gate struct {
	last   time.Time // when a warning last passed; zero if none has
	hidden int       // warnings since then
}

// Pass decides whether a warning may be logged now. If so, hidden is how many were not since the
// last one that was.
func (g *Gate) Pass(now time.Time) (hidden int, ok bool) {
	if !g.last.IsZero() && now.Sub(g.last) < every && !now.Before(g.last) {
		g.hidden++
		return 0, false
	}
	hidden = g.hidden
	g.hidden = 0
	g.last = now
	return hidden, true
}

// Gates holds gates by key, which are made as needed.
type Gates[K comparable] map[K]Gate

// Pass is [Gate.Pass] of the key's gate.
func (g Gates[K]) Pass(key K, now time.Time) (hidden int, ok bool) {
	gate := g[key]
	hidden, ok = gate.Pass(now)
	g[key] = gate
	return hidden, ok
}

// A Cause is a reason why a client that hasn't joined can make a world log a record.
type Cause uint8

const (
	Retry     Cause = iota // a client must prove its address
	Household              // the same, because several clients at the address have begun
	Refused                // there is no room for a client
	Failed                 // a client does not join
	Login                  // a client's token is refused
	Unproven               // a packet would be sent to an address that belongs to no client
	causes
)

// strangers limits the records that clients can cause, so that they can't fill a disk.
type strangers struct {
	mu     sync.Mutex    // guards the fields below; locked last
	gates  [causes]Gate  // for clients that haven't joined
	guests [deeds]guests // for clients that have
}

// Stranger logs what a client that hasn't joined did. The record is a warning, unless honest
// clients do the same. If a record with the same cause was logged within the last second, Stranger
// only counts this one. It may be called concurrently.
func (s *Set) Stranger(of Cause, message string, args ...any) {
	level := slog.LevelWarn
	if of == Household {
		level = slog.LevelInfo
	}
	s.bounded(s.strangers.gates[of].Pass, level, message, args)
}

// A Deed is something that clients that have joined can do again and again, and for which a world
// logs a record each time.
type Deed uint8

const (
	Joined   Deed = iota // a client has joined
	Left                 // the client's connection has ended
	Violated             // the client broke a rule
	Carried              // the client's sealed carrier has changed its state or has ended
	deeds
)

const (
	// guestLines is how many records of a deed may be logged for one party in a minute, and
	// allLines is how many for all parties. That is enough for the clients of a server that
	// restarts, and too few to fill a disk.
	guestLines = 20
	allLines   = 300
)

// guests limits the records of one deed by counting them in each minute. The zero guests is ready
// to use.
type guests struct {
	start  time.Time   // of the current minute
	lines  int         // records logged in the minute
	of     map[any]int // records logged in the minute, by party
	hidden int         // records not logged since the last one that was
}

// pass decides whether a record about a party may be logged now. If so, hidden is how many were
// not since the last one that was.
func (g *guests) pass(party any, now time.Time) (hidden int, ok bool) {
	if since := now.Sub(g.start); since >= time.Minute || since < 0 {
		g.start = now
		g.lines = 0
		g.of = make(map[any]int)
	}
	if g.lines >= allLines || g.of[party] >= guestLines {
		g.hidden++
		return 0, false
	}
	g.lines++
	g.of[party]++
	hidden = g.hidden
	g.hidden = 0
	return hidden, true
}
