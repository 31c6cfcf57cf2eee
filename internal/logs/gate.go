package logs

import (
	"log/slog"
	"sync"
	"time"
)

// every is the shortest time between two warnings that pass a [Gate].
const every = time.Second

// A Gate passes one warning a second and counts the others. The zero Gate is ready to use.
type Gate struct {
	last   time.Time // when a warning last passed; zero = never
	hidden int       // warnings since then
}

// Pass reports whether a warning may be logged now. hidden is how many warnings
// were not, since the last one that was.
func (g *Gate) Pass(now time.Time) (hidden int, ok bool) {
	if !g.last.IsZero() && now.Sub(g.last) < every && !now.Before(g.last) {
		g.hidden++
		return 0, false
	}
	hidden, g.hidden, g.last = g.hidden, 0, now
	return hidden, true
}

// Gates are gates by key, made as needed.
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
	Household              // the same, because several clients at that address have begun
	Refused                // there is no room for a client
	Failed                 // a client does not join
	Login                  // a client's token is refused
	Unproven               // a packet would be sent to an address that is not of a client
	causes
)

// strangers limits the records that clients can cause: those of unknown clients by a
// gate for each cause, those of clients that have joined by a count for each deed.
type strangers struct {
	mu     sync.Mutex // guards the fields below; locked last
	gates  [causes]Gate
	guests [deeds]guests
}

// Stranger logs an action of an unknown client: as a warning, unless honest
// clients do the same. If a record with the same cause was logged within the
// last second, it only counts this one. It may be called concurrently.
func (s *Set) Stranger(of Cause, message string, args ...any) {
	level := slog.LevelWarn
	if of == Household {
		level = slog.LevelInfo
	}
	s.bounded(s.strangers.gates[of].Pass, level, message, args)
}

// A Deed is something for which clients that have joined can make a world log
// records again and again.
type Deed uint8

const (
	Joined   Deed = iota // a client has joined
	Left                 // the client's connection has ended
	Violated             // the client broke a rule
	Carried              // the client's sealed carrier has changed its state, or there is none any more
	deeds
)

const (
	// guestLines is how many records of a deed are logged for one party in a
	// minute, and allLines how many for all parties: enough for the clients of
	// a server that restarts, and too few to fill a disk.
	guestLines = 20
	allLines   = 300
)

// guests counts the records of one deed by minute. The zero guests is ready to use.
type guests struct {
	begun  time.Time   // when the minute began
	lines  int         // records logged in the minute
	of     map[any]int // records logged in the minute, by party
	hidden int         // records that were not logged since the last one that was
}

// pass reports whether a record about a party may be logged now. hidden is how
// many records were not, since the last one that was.
func (g *guests) pass(party any, now time.Time) (hidden int, ok bool) {
	if since := now.Sub(g.begun); since >= time.Minute || since < 0 {
		g.begun, g.lines, g.of = now, 0, make(map[any]int)
	}
	if g.lines >= allLines || g.of[party] >= guestLines {
		g.hidden++
		return 0, false
	}
	g.lines++
	g.of[party]++
	hidden, g.hidden = g.hidden, 0
	return hidden, true
}
