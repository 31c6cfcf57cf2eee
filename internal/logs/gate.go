package logs

import (
	"log/slog"
	"sync"
	"time"
)

// minInterval is the minimum time between two warnings that pass a [Gate]. A person can still read
// one warning a second.
const minInterval = time.Second

// A Gate is a rate limiter for warnings. It passes one a second and counts all others. The zero
// Gate is ready to use. It is not safe for concurrent use.
type Gate struct {
	last   time.Time // when a warning last passed; zero if none has
	hidden int       // warnings since then
}

// Pass decides whether a warning may be logged now. If so, hidden is the number of warnings since
// the last logged one that were not logged. Otherwise Pass counts this one as hidden.
func (g *Gate) Pass(now time.Time) (hidden int, ok bool) {
	if !g.last.IsZero() && now.Sub(g.last) < minInterval && !now.Before(g.last) {
		g.hidden++
		return 0, false
	}
	hidden = g.hidden
	g.hidden = 0
	g.last = now
	return hidden, true
}

// Gates holds gates by key, and creates them as needed.
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
	Retry         Cause = iota // a client must prove its address
	SharedAddress              // the same, because several clients have begun at its address
	Refused                    // there is no room for a client
	Failed                     // a client fails to join
	Login                      // a client's token is refused
	Unverified                 // a packet would be sent to an address that belongs to no client
	numCauses
)

// recordLimits limits the records that clients can cause, so that they can't fill a disk.
type recordLimits struct {
	mu       sync.Mutex                 // guards the fields below; locked last
	unjoined [numCauses]Gate            // for clients that haven't joined
	joined   [numActivities]minuteLimit // for clients that have
}

// LogUnjoined logs what a client that hasn't joined did. The record is a warning, unless honest
// clients do the same. If a record with the same cause was logged within the last second,
// LogUnjoined only counts this one. It may be called concurrently.
func (s *Set) LogUnjoined(of Cause, message string, args ...any) {
	level := slog.LevelWarn
	if of == SharedAddress {
		level = slog.LevelInfo
	}
	s.logLimited(s.limits.unjoined[of].Pass, level, message, args)
}

// An Activity is something that clients that have joined can do repeatedly, and for which a world
// logs a record each time.
type Activity uint8

const (
	Joined         Activity = iota // a client has joined
	Left                           // the client's connection has ended
	Violated                       // the client broke a rule
	CarrierChanged                 // the client's sealed carrier has changed its state or has ended
	numActivities
)

const (
	// partyLimit is the maximum number of records of an activity for one party in a minute, and
	// totalLimit the maximum for all parties. That is enough for the clients of a server that
	// restarts, and too few to fill a disk.
	partyLimit = 20
	totalLimit = 300
)

// A minuteLimit limits the records of one activity by counting them in each minute. The zero
// minuteLimit is ready to use.
type minuteLimit struct {
	start   time.Time   // of the current minute
	total   int         // records logged in the minute
	byParty map[any]int // records logged in the minute, by party
	hidden  int         // number of records that were not logged since the last one that was
}

// pass decides whether a record about a party may be logged now, and counts it. If it may, hidden
// is the number of records since the last logged one that were not logged.
func (g *minuteLimit) pass(party any, now time.Time) (hidden int, ok bool) {
	if since := now.Sub(g.start); since >= time.Minute || since < 0 {
		g.start = now
		g.total = 0
		g.byParty = make(map[any]int)
	}
	if g.total >= totalLimit || g.byParty[party] >= partyLimit {
		g.hidden++
		return 0, false
	}
	g.total++
	g.byParty[party]++
	hidden = g.hidden
	g.hidden = 0
	return hidden, true
}
