package logs

import (
	"context"
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

// strangers holds a gate for each cause.
type strangers struct {
	mu    sync.Mutex // guards gates, and is taken last
	gates [causes]Gate
}

// Stranger logs what unknown clients do: a warning, unless honest ones do it, too. If a record with the same cause was written within the last
// second it only counts this one. It is safe from any goroutine.
func (s *Set) Stranger(of Cause, message string, args ...any) {
	s.strangers.mu.Lock()
	hidden, ok := s.strangers.gates[of].Pass(time.Now())
	s.strangers.mu.Unlock()
	if !ok {
		return
	}
	if hidden > 0 {
		args = append(args, "hidden", hidden)
	}
	level := slog.LevelWarn
	if of == Household {
		level = slog.LevelInfo
	}
	s.All.Log(context.Background(), level, message, args...)
}
