package driver

import "runtime"

const (
	// After a yield that brought no posts, loneWakes wakes pass without another one. Each further such yield in a row doubles them, up to
	// mostLoneWakes: where hundreds of goroutines are ready a yield takes milliseconds, and the only caller of a world would wait for it.
	// 64 callers make 1,024 wakes in a hundredth of a second, so they are noticed soon.
	loneWakes     = 16
	mostLoneWakes = 1024
)

// Gathering lets the goroutines that are ready post before the driver runs what was posted. Go runs a goroutine that was just woken before
// those that have waited for longer, so each caller of many would have a Dispatch, a Flush and a packet of its own: with 64 callers on two
// cores that costs more than twice the time. It belongs to the driver's goroutine; the zero Gathering begins with a yield.
type Gathering struct {
	lone int // wakes left that go by without a yield
	last int // what lone began with after the last yield; 0 = that brought more posts
}

// Yield lets other goroutines run, when they may post meanwhile. posted returns the number of posts that wait.
func (g *Gathering) Yield(posted func() int) { g.yield(posted, runtime.Gosched) }

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

// yielded notes whether a yield brought more posts.
func (g *Gathering) yielded(more bool) {
	if more {
		g.last = 0
	} else {
		g.last = min(max(2*g.last, loneWakes), mostLoneWakes)
	}
	g.lone = g.last
}
