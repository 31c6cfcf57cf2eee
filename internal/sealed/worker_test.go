package sealed

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/udp"
)

// TestWaitsOfACrowd: threads that sleep in the kernel keep processors from everybody else. With 200 carriers that sent, a server did nothing
// half of the time.
func TestWaitsOfACrowd(t *testing.T) {
	const short = crowdWait / 4
	procs := runtime.GOMAXPROCS(0)
	w := worker{real: true}
	as := func(crowd int) {
		before := awake.Swap(int32(crowd))
		t.Cleanup(func() { awake.Store(before) })
	}

	as(procs / 2)
	wait, naps := w.adjust(short)
	require.Equal(t, short, wait)
	require.Equal(t, short < udp.TimerUnit, naps)
	_, naps = w.adjust(2 * crowdWait)
	require.False(t, naps, "the timers keep that")

	as(procs)
	wait, naps = w.adjust(short)
	require.Equal(t, short, wait)
	require.False(t, naps)

	as(procs + 1)
	wait, naps = w.adjust(short)
	require.Equal(t, crowdWait, wait)
	require.False(t, naps)
	wait, _ = w.adjust(2 * crowdWait)
	require.Equal(t, 2*crowdWait, wait)

	wait, naps = new(worker).adjust(short)
	require.Equal(t, short, wait, "in virtual time")
	require.False(t, naps)
}

// TestSeenWakesAreForgotten: a wake that a turn has seen starts no other one.
func TestSeenWakesAreForgotten(t *testing.T) {
	w := worker{running: true, token: make(chan struct{}, 1)}
	require.False(t, w.seen())
	w.wake()
	w.wake()
	require.True(t, w.seen())
	require.False(t, w.seen())
}
