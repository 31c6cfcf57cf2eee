package logs

import (
	"sync"
	"time"
)

// every is the shortest time between two warnings that pass a [Gate].
const every = time.Second

// Gate lets one warning a second through and counts the others. The zero Gate has seen none.
type Gate struct {
	last   time.Time
	hidden int
}

// Pass reports whether a warning may be written now; hidden is how many were not since the last one.
func (g *Gate) Pass(now time.Time) (hidden int, ok bool) {
	if !g.last.IsZero() && now.Sub(g.last) < every && !now.Before(g.last) {
		g.hidden++
		return 0, false
	}
	hidden, g.hidden, g.last = g.hidden, 0, now
	return hidden, true
}

// Gates has a gate for each key, made when it is first asked.
type Gates[K comparable] map[K]Gate

// Pass is [Gate.Pass] of the key's gate.
func (g Gates[K]) Pass(key K, now time.Time) (hidden int, ok bool) {
	gate := g[key]
	hidden, ok = gate.Pass(now)
	g[key] = gate
	return hidden, ok
}

// Cause is something that strangers can make a world warn about.
type Cause uint8

const (
	Retry   Cause = iota // they must prove their address
	Refused              // they find no room
	Failed               // they do not join
	Login                // their token is refused
	causes
)

// strangers has a gate for each cause.
type strangers struct {
	mu    sync.Mutex // guards gates, and is taken last
	gates [causes]Gate
}

// Warn writes a warning about strangers, unless one of its cause was written within the last second: then it is counted. It is safe
// from any goroutine.
func (s *Set) Warn(of Cause, message string, args ...any) {
	s.strangers.mu.Lock()
	hidden, ok := s.strangers.gates[of].Pass(time.Now())
	s.strangers.mu.Unlock()
	if !ok {
		return
	}
	if hidden > 0 {
		args = append(args, "hidden", hidden)
	}
	s.All.Warn(message, args...)
}
