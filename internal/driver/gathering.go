package driver

import "runtime"

const (
	// After a yield in which nothing was posted, the driver does not yield at the next
	// loneWakes wakes. Each further such yield in a row doubles that number, up to
	// mostLoneWakes.
	//
	// A yield takes milliseconds while hundreds of goroutines are runnable, and a world's
	// only caller would wait for it each time. If there are many callers after all, they are
	// noticed soon: 64 callers make 1,024 wakes in 10 ms.
	loneWakes     = 16
	mostLoneWakes = 1024
)

// Gathering makes the driving goroutine yield after a wake, so that other runnable goroutines
// can post before it runs the posts. Go runs a goroutine that was just woken before those
// that have been runnable for longer. Without Gathering, each of many callers would get a
// separate Dispatch, Flush and packet. With 64 callers on two cores, that takes more than
// twice the time.
//
// Only the driving goroutine uses a Gathering. The zero Gathering yields at the first wake.
type Gathering struct {
	lone int // number of coming wakes with a single post that do not yield
	last int // value to which the last yield set lone; 0 if there were more posts after it
}

// Yield is called after a wake. It lets other goroutines run unless the last yields were in
// vain. posted returns the number of waiting posts.
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

// yielded sets lone after a yield. more says whether other goroutines posted during the
// yield.
func (g *Gathering) yielded(more bool) {
	if more {
		g.last = 0
	} else {
		g.last = min(max(2*g.last, loneWakes), mostLoneWakes)
	}
	g.lone = g.last
}
