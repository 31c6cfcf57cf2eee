package driver

import "runtime"

const (
	// After a yield that brought no posts, the next loneWakes wakes do not yield. Each further such yield in a row doubles that number, up
	// to mostLoneWakes: where hundreds of goroutines are ready a yield takes milliseconds, for which a world's only caller would wait. 64
	// callers make 1,024 wakes in a hundredth of a second, so Gathering notices them soon.
	loneWakes     = 16
	mostLoneWakes = 1024
)

// Gathering makes the driver yield so that goroutines that are ready can post before it runs the posts. Without it Go runs a goroutine
// that was just woken before those that have waited longer, so each of many callers would get a Dispatch, a Flush and a packet of its
// own: with 64 callers on two cores that takes more than twice the time. It belongs to the driver's goroutine; the zero Gathering begins
// with a yield.
type Gathering struct {
	lone int // wakes that still pass without a yield
	last int // the value to which the last yield set lone; 0 = that yield brought more posts
}

// Yield lets other goroutines run if they may post. posted returns the number of posts that wait.
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
