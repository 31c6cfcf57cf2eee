package driver

import "runtime"

// loneWakes is how many wakes go by without a yield after one that brought nothing: a yield costs a world that one goroutine calls some
// percent of a call.
const loneWakes = 16

// Gathering lets the goroutines that are ready post before the driver runs what was posted. Go runs a goroutine that was just woken before
// those that have waited for longer, so each caller of many would have a Dispatch, a Flush and a packet of its own: with 64 callers on two
// cores that costs more than twice the time. It belongs to the driver's goroutine; the zero Gathering begins with a yield.
type Gathering struct {
	lone int // wakes left that go by without a yield
}

// Yield yields when that may bring more posts. posted returns how many wait.
func (g *Gathering) Yield(posted func() int) { g.yield(posted, runtime.Gosched) }

func (g *Gathering) yield(posted func() int, pause func()) {
	before := posted()
	switch {
	case before == 0:
	case before == 1 && g.lone > 0:
		g.lone--
	default:
		if pause(); posted() == before {
			g.lone = loneWakes
		}
	}
}
