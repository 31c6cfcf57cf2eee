package driver

import "runtime"

const (
	// After a yield in which nothing was posted, the driver doesn't yield at the next minSkips
	// wakes with a single post. Each further such yield in a row doubles that number, up to
	// maxSkips.
	//
	// A yield takes milliseconds while hundreds of goroutines are runnable, and a world's only
	// caller would wait for it each time. If there are many callers after all, they are noticed
	// soon, because 64 callers make 1,024 wakes in 10 ms.
	minSkips = 16
	maxSkips = 1024
)

// Gathering makes the driving goroutine yield after a wake, so that other runnable goroutines can
// post before it runs the posts. Without it, each of many callers would get a Dispatch, a Flush and
// a packet of its own, because Go runs a goroutine that was just woken before those that have been
// runnable for longer. With 64 callers on two cores, that takes more than twice the time.
//
// Only the driving goroutine uses a Gathering. The zero Gathering yields at the first wake.
type Gathering struct {
	skips     int // how many more wakes with a single post don't yield
	lastSkips int // what the last yield set skips to; 0 if there were more posts after it
}

// Yield is called after a wake. It lets other goroutines run, unless they posted nothing during the
// last yields. posted returns the number of waiting posts.
func (g *Gathering) Yield(posted func() int) { g.yield(posted, runtime.Gosched) }

// yield is Yield with pause in place of runtime.Gosched, for tests.
func (g *Gathering) yield(posted func() int, pause func()) {
	before := posted()
	if before == 0 {
		return
	}
	if before == 1 && g.skips > 0 {
		g.skips--
		return
	}
	pause()
	g.yielded(posted() > before)
}

// yielded sets skips after a yield. more says whether other goroutines posted during the yield.
func (g *Gathering) yielded(more bool) {
	if more {
		g.lastSkips = 0
	} else {
		g.lastSkips = min(max(2*g.lastSkips, minSkips), maxSkips)
	}
	g.skips = g.lastSkips
}
