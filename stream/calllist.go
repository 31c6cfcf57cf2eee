package stream

import (
	"time"

	"github.com/quivernet/quiver/internal/guest"
	"github.com/quivernet/quiver/rpc"
)

// callList is the [Calls] of one world that are on their way. It belongs to the world's goroutine.
type callList struct {
	active []*Calling
}

// callListKey finds a world's list: its first Calls makes it, and gives it a turn in each tick.
type callListKey struct{}

// callsOf is called on the world's goroutine, without an Install.
func callsOf(w *rpc.World) *callList {
	return guest.Keep(w, callListKey{}, func() any {
		list := &callList{}
		w.OnTick(list.tick)
		return list
	}).(*callList)
}

func (l *callList) add(c *Calling) { l.active = append(l.active, c) }

// tick gives each its turn. Those that begin meanwhile have theirs in the next tick.
func (l *callList) tick(time.Time) {
	turn, next := l.active, 0
	kept := turn[:0]
	l.active = nil
	defer func() { // also when one panics
		kept = append(kept, turn[next:]...)
		clear(turn[len(kept):])
		l.active = append(kept, l.active...)
	}()
	for next < len(turn) {
		c := turn[next]
		next++
		if c.tick() {
			kept = append(kept, c)
		}
	}
}
