package sealed

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/udp"
)

// Threads that sleep in the kernel keep processors from everybody else: with 200 carriers that send, a server did nothing half of
// the time.
func TestFewWaitsKeepAThread(t *testing.T) {
	w := worker{naps: true}
	require.False(t, w.precise(udp.TimerUnit), "the timers keep that")
	half := int32(runtime.GOMAXPROCS(0) / 2)
	before := awake.Load()
	awake.Store(half + 1)
	defer awake.Store(before)
	require.False(t, w.precise(udp.TimerUnit/2))
	awake.Store(half)
	require.Equal(t, udp.TimerUnit > 0, w.precise(udp.TimerUnit/2))
	require.False(t, new(worker).precise(udp.TimerUnit/2))
}
