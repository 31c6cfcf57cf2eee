package rpctest

import (
	"runtime"
	"sync"
)

// alone makes the program run on one processor while any network runs. With more processors, two
// goroutines of a connection that wake at the same virtual instant could send in either order.
var alone struct {
	sync.Mutex
	networks   int // number of networks that run
	processors int // GOMAXPROCS before the first network
}

func enterAlone() {
	alone.Lock()
	defer alone.Unlock()
	alone.networks++
	if alone.networks == 1 {
		alone.processors = runtime.GOMAXPROCS(1)
	}
}

func leaveAlone() {
	alone.Lock()
	defer alone.Unlock()
	alone.networks--
	if alone.networks == 0 {
		runtime.GOMAXPROCS(alone.processors)
	}
}
