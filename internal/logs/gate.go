package logs

import (
	"log/slog"
	"sync"
	"time"
)

// every is the shortest time between two warnings that pass a [Gate].
const every = time.Second

// Gate lets one warning a second through and counts the others. The zero Gate is ready to use.
type Gate struct {
	last   time.Time
	hidden int
}

// Pass reports whether a warning may be written now. hidden is the number of warnings that were not, since the last one.
func (g *Gate) Pass(now time.Time) (hidden int, ok bool) {
	if !g.last.IsZero() && now.Sub(g.last) < every && !now.Before(g.last) {
		g.hidden++
		return 0, false
	}
	hidden, g.hidden, g.last = g.hidden, 0, now
	return hidden, true
}

// Gates holds a gate for each key, made when Pass first asks for it.
type Gates[K comparable] map[K]Gate

// Pass is [Gate.Pass] of the key's gate.
func (g Gates[K]) Pass(key K, now time.Time) (hidden int, ok bool) {
	gate := g[key]
	hidden, ok = gate.Pass(now)
	g[key] = gate
	return hidden, ok
}

// Cause is something that unknown clients can make a world log.
type Cause uint8

const (
	Retry     Cause = iota // a client must prove its address
	Household              // the same, since several have begun from there
	Refused                // a client finds no room
	Failed                 // a client does not join
	Login                  // a client's token is refused
	Unproven               // a packet would go to where no client is
	causes
)

// strangers bounds what clients can make a world log: unknown ones by a gate for each cause, those that have joined by a count for each deed.
type strangers struct {
	mu     sync.Mutex // guards the others, and is taken last
	gates  [causes]Gate
	guests [deeds]guests
}

// Stranger logs what an unknown client did, as a warning unless honest ones do it, too. If a record with the same cause was written within the
// last second, it only counts this one. It is safe for concurrent use.
func (s *Set) Stranger(of Cause, message string, args ...any) {
	level := slog.LevelWarn
	if of == Household {
		level = slog.LevelInfo
	}
	s.bounded(s.strangers.gates[of].Pass, level, message, args)
}

// Deed is something that clients which have joined can make a world log again and again.
type Deed uint8

const (
	Joined   Deed = iota // a client has joined
	Left                 // its connection has ended
	Violated             // it broke a rule
	Carried              // its sealed carrier has another state, or there is none
	deeds
)

const (
	// guestLines is how many records of a deed one party has in a minute, and allLines how many all have: enough for those of a server that
	// begins anew, and too few to fill a disk.
	guestLines = 20
	allLines   = 300
)

// guests counts the records of one deed in a minute. The zero guests is ready to use.
type guests struct {
	begun  time.Time // when the minute began
	lines  int
	of     map[any]int // lines, by party
	hidden int         // records that were not written, since the last that was
}

// pass reports whether a record about a party may be written now. hidden is the number of records that were not, since the last one.
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
