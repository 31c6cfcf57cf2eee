package rpctest

import (
	"runtime"
	"sync"
)

// alone has the program run on one processor while any network plays: with more, two goroutines of a connection that wake at the
// same virtual instant would send in either order.
var alone struct {
	sync.Mutex
	networks   int
	processors int // before the first
}

func enterAlone() {
	alone.Lock()
	defer alone.Unlock()
	if alone.networks++; alone.networks == 1 {
		alone.processors = runtime.GOMAXPROCS(1)
	}
}

func leaveAlone() {
	alone.Lock()
	defer alone.Unlock()
	if alone.networks--; alone.networks == 0 {
		runtime.GOMAXPROCS(alone.processors)
	}
}
