package slices

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/recovery"
)

// TestStaleThoughThePathMovesAgain: slices of a path without fates are given up
// in time, even if the next path changes before that.
func TestStaleThoughThePathMovesAgain(t *testing.T) {
	m, now := New(protocol, newRoom(1<<20)), netsim.Epoch
	require.NoError(t, m.Send(content(3*Size), memory{}))
	for range 3 {
		_, _, ok := m.AppendPacket(now, nil, Datagram)
		require.True(t, ok)
	}
	m.SetPath(now, recovery.Path{Epoch: 1, Fates: true, RTT: 100 * time.Millisecond})
	now = now.Add(50 * time.Millisecond)
	m.SetPath(now, recovery.Path{Epoch: 2, Fates: true}) // its address has changed

	sent := 0
	for end := now.Add(5 * time.Second); now.Before(end) && sent < 3; {
		require.NoError(t, m.Advance(now))
		for _, _, ok := m.AppendPacket(now, nil, Datagram); ok; _, _, ok = m.AppendPacket(now, nil, Datagram) {
			sent++
		}
		next, ok := m.NextTimeout()
		require.True(t, ok || sent == 3, "nobody will ever call again, with %d slices in flight", m.out.flight.count)
		now = next
	}
	require.Equal(t, 3, sent)
}
