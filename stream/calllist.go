package stream

import (
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/quivernet/quiver/rpc"
)

// callList is the [Calls] of one world that are on their way. It belongs to the world's goroutine.
type callList struct {
	active []*Calling
}

// callLists finds a world's list without an Install. A world's hooks cannot be removed: each world gets one, with its
// first Calls. The hook keeps the list, so that nothing here keeps a world.
var callLists struct {
	sync.Mutex
	of map[weak.Pointer[rpc.World]]weak.Pointer[callList]
}

func callsOf(w *rpc.World) *callList {
	key := weak.Make(w)
	callLists.Lock()
	defer callLists.Unlock()
	if list := callLists.of[key].Value(); list != nil {
		return list
	}
	if callLists.of == nil {
		callLists.of = make(map[weak.Pointer[rpc.World]]weak.Pointer[callList])
	}
	list := &callList{}
	callLists.of[key] = weak.Make(list)
	w.OnTick(list.tick)
	runtime.AddCleanup(w, forgetCalls, key)
	return list
}

func forgetCalls(key weak.Pointer[rpc.World]) {
	callLists.Lock()
	defer callLists.Unlock()
	delete(callLists.of, key)
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
