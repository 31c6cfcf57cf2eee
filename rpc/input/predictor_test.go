package input

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

// knowing returns a predictor that has just heard that the server took tick 1,000, and its time.
func knowing() (*Predictor[push], time.Time) {
	p, now := pushes.Predictor(nil), time.Unix(0, 0)
	_ = p.Tick(now, nil) // the question, which no actor takes
	p.handleAnswer(0, answer{Taken: 1000}, func() time.Duration { return 50 * time.Millisecond })
	return p, now
}

// TestFirstTick: a client begins with the present tick, because no keys were read for earlier ones.
func TestFirstTick(t *testing.T) {
	p, now := knowing()
	var ticks []uint64
	read := func(tick uint64) push { ticks = append(ticks, tick); return push{} }
	_ = p.Tick(now, read)
	require.Equal(t, []uint64{1004}, ticks, "1,000, the one that runs, and a round trip of 50 ms")
	_ = p.Tick(now.Add(2*p.handle.tick), read)
	require.Equal(t, []uint64{1004, 1005, 1006}, ticks)
	require.Zero(t, p.stats.Skipped)
}

// TestSawCounts: a tick passed to Saw counts, even if an answer, which is no
// state, has arrived for a later one.
func TestSawCounts(t *testing.T) {
	p, now := knowing()
	read := func(uint64) push { return push{} }
	_ = p.Tick(now, read)
	hear := func(taken uint64) {
		p.handleAnswer(now.Sub(p.epoch), answer{Taken: taken}, func() time.Duration { return 50 * time.Millisecond })
	}
	for range 10 {
		now = now.Add(p.handle.tick)
		_ = p.Tick(now, read)
	}
	hear(1005)
	require.EqualValues(t, 1005, p.seen, "nothing else is known")
	p.Saw(1006)
	hear(1010)
	require.EqualValues(t, 1006, p.seen)
	p.Saw(1003)
	require.EqualValues(t, 1006, p.seen)
}

// TestSameTickOfAnotherOwner: after a change of the owner neither the previous
// owner's inputs nor the fact that there was one remain.
func TestSameTickOfAnotherOwner(t *testing.T) {
	q, call, now := filled()
	q.receive(pushes, call, batch[push]{First: 101, Inputs: []push{{Force: 5}}})
	for range 2 {
		input, ok := q.Take(now, 101)
		require.True(t, ok)
		require.Equal(t, push{Force: 5}, input)
	}
	q.actor = new(rpc.Actor) // it was another's
	q.receive(pushes, call, batch[push]{})
	input, ok := q.Take(now, 101)
	require.False(t, ok)
	require.Zero(t, input)
}
