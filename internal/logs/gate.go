package logs

import (
	"log/slog"
	"sync"
	"time"
)

// every is the minimum time between two warnings that pass a [Gate].
const every = time.Second

// A Gate passes one warning a second and counts all others. The zero Gate is ready to use.
type Gate struct {
	last   time.Time // when a warning last passed; zero if none has
	hidden int       // warnings since then
}

// Pass reports whether a warning may be logged now. hidden is the number of warnings that
// were not logged since the last one that was.
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

// Gates holds gates by key. They are made as needed.
type Gates[K comparable] map[K]Gate

// Pass calls [Gate.Pass] of the key's gate.
func (g Gates[K]) Pass(key K, now time.Time) (hidden int, ok bool) {
	gate := g[key]
	hidden, ok = gate.Pass(now)
	g[key] = gate
	return hidden, ok
}

// A Cause is a reason for which unknown clients can make a world log a record.
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

// strangers limits the records that clients can cause. It has a gate for each cause of
// unknown clients, and a count for each deed of clients that have joined.
type strangers struct {
	mu     sync.Mutex // guards the fields below; locked last
	gates  [causes]Gate
	guests [deeds]guests
}

// Stranger logs an action of an unknown client. The record is a warning, unless honest
// clients do the same. If a record with the same cause was logged within the last second,
// Stranger only counts this one. It may be called concurrently.
func (s *Set) Stranger(of Cause, message string, args ...any) {
	level := slog.LevelWarn
	if of == Household {
		level = slog.LevelInfo
	}
	s.bounded(s.strangers.gates[of].Pass, level, message, args)
}

// A Deed is something for which clients that have joined can make a world log records again
// and again.
type Deed uint8

const (
	Joined   Deed = iota // a client has joined
	Left                 // the client's connection has ended
	Violated             // the client broke a rule
	Carried              // the client's sealed carrier has changed its state or has ended
	deeds
)

const (
	// guestLines is the maximum number of records of a deed logged for one party in a minute.
	// allLines is the maximum for all parties. It is enough for the clients of a server that
	// restarts, and too few to fill a disk.
	guestLines = 20
	allLines   = 300
)

// guests counts the records of one deed by minute. The zero guests is ready to use.
type guests struct {
	begun  time.Time   // start of the minute
	lines  int         // records logged in the minute
	of     map[any]int // records logged in the minute, by party
	hidden int         // records not logged since the last one that was
}

// pass reports whether a record about a party may be logged now. hidden is the number of
// records that were not logged since the last one that was.
func (g *guests) pass(party any, now time.Time) (hidden int, ok bool) {
	if since := now.Sub(g.begun); since >= time.Minute || since < 0 {
		g.begun = now
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
