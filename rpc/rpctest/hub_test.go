package rpctest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc/emulation"
)

// TestEmulateOneLeavesTheUplink: the path of one client may get better or worse, and what the server sends to all is bounded as before.
func TestEmulateOneLeavesTheUplink(t *testing.T) {
	h, bounded := newHub(), emulation.Settings{Rate: 1_000_000}
	alice, err := h.join(bounded, 1)
	require.NoError(t, err)
	bob, err := h.join(bounded, 2)
	require.NoError(t, err)
	now := time.Now()
	waits := func(l *link) bool {
		now = now.Add(time.Second)
		for range 10 {
			l.Send(now, make([]byte, 1000))
		}
		return l.Backlog(now) > 0
	}
	require.NoError(t, bob.set(emulation.Settings{PktLag: 50 * time.Millisecond}, true))
	require.True(t, waits(alice.down))
	require.True(t, waits(bob.down))
	require.False(t, waits(bob.up), "his own has no rate any more")
	require.Positive(t, bob.down.window.Load())

	require.NoError(t, alice.set(emulation.Settings{}, false))
	require.NoError(t, bob.set(emulation.Settings{}, false))
	require.False(t, waits(alice.down), "all paths are changed")
}
