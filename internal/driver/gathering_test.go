package driver

import "testing"

// callers post during a pause, as goroutines that are ready do.
type callers struct {
	ready, posted, pauses int
}

func (c *callers) count() int { return c.posted }

func (c *callers) pause() {
	c.pauses++
	c.posted += c.ready
	c.ready = 0
}

// TestGatheringWaitsForThoseWhoAreReady wakes a driver once for each of 64
// posts, while the other callers are ready.
func TestGatheringWaitsForThoseWhoAreReady(t *testing.T) {
	var g Gathering
	for round := range 100 {
		c := callers{ready: 63, posted: 1}
		g.yield(c.count, c.pause)
		if c.posted != 64 {
			t.Fatalf("round %d: the driver runs %d posts, want all 64", round, c.posted)
		}
	}
}

// TestGatheringLeavesALoneCallerAlone looks that one caller costs few yields,
// and that many are noticed again.
func TestGatheringLeavesALoneCallerAlone(t *testing.T) {
	var g Gathering
	c := callers{posted: 1}
	for range 100_000 {
		g.yield(c.count, c.pause)
	}
	if c.pauses > 110 {
		t.Errorf("%d yields in 100,000 wakes by one caller", c.pauses)
	}
	wakes := 0
	for many := (callers{ready: 63, posted: 1}); many.pauses == 0; wakes++ {
		g.yield(many.count, many.pause)
	}
	if wakes > maxSkips+1 {
		t.Errorf("many callers were noticed after %d wakes", wakes)
	}
	c = callers{posted: 2, ready: 5}
	if g.yield(c.count, c.pause); c.posted != 7 {
		t.Errorf("the driver runs %d posts of 7 though two had come before it looked", c.posted)
	}
	none := callers{ready: 1}
	if g.yield(none.count, none.pause); none.pauses != 0 {
		t.Error("the driver yields though nobody has posted")
	}
}
