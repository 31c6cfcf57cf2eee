package driver

import "runtime"

const (
	// After a yield in which nothing was posted, the driver does not yield at the next
	// loneWakes wakes. Each further such yield in a row doubles that number, up to
	// mostLoneWakes. A yield takes milliseconds while hundreds of goroutines are
	// runnable, and a world's only caller would wait for it each time. If there are many
	// callers after all, they are noticed soon: 64 of them make 1,024 wakes in 10 ms.
	loneWakes     = 16
	mostLoneWakes = 1024
)

// Gathering makes the driving goroutine yield after a wake, so that other runnable goroutines can
// post, too, before it runs the posts. Without it, each of many callers would get a Dispatch, a
// Flush and a packet of its own, because Go runs a goroutine that was just woken before those that
// have been runnable for longer. With 64 callers on two cores that takes more than twice the time.
//
// A Gathering is used by the driving goroutine only. The zero Gathering yields at the first wake.
type Gathering struct {
	lone int // how many of the next wakes with a single post do not yield
	last int // the value to which the last yield set lone; 0 if there were more posts after that yield
}

// Yield is called after a wake. It lets other goroutines run, unless the last
// yields were in vain. posted returns how many posts wait.
func (g *Gathering) Yield(posted func() int) { g.yield(posted, runtime.Gosched) }

// yield is Yield with pause in place of runtime.Gosched, for tests.
func (g *Gathering) yield(posted func() int, pause func()) {
	before := posted()
	switch {
	case before == 0:
	case before == 1 && g.lone > 0:
		g.lone--
	default:
		pause()
		g.yielded(posted() > before)
	}
}

// yielded sets lone after a yield. more is whether other goroutines posted during it.
func (g *Gathering) yielded(more bool) {
	if more {
		g.last = 0
	} else {
		g.last = min(max(2*g.last, loneWakes), mostLoneWakes)
	}
	g.lone = g.last
}
