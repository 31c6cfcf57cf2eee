package budget

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemory(t *testing.T) {
	const least, limit = 256 << 10, 4 << 20
	m := NewMemory(64<<20, least, 128)
	t.Log("# whoever grows leaves enough for all that may come")
	grown := 0
	for range 128 {
		require.True(t, m.Enter())
		held := least
		for range 10 {
			more := m.Grow(held, limit)
			require.LessOrEqual(t, more, limit)
			held = more
		}
		grown += held
	}
	require.Equal(t, grown, m.reserved)
	require.Greater(t, grown, 48<<20)
	require.LessOrEqual(t, grown, 64<<20)
	for range 127 {
		m.Leave(least)
	}
	m.Leave(grown - 127*least)
	require.Zero(t, m.reserved)
	require.Equal(t, 128*least, m.kept())

	small := NewMemory(3*least, least, 128)
	require.True(t, small.Enter())
	require.Equal(t, least, small.Grow(least, limit), "all is kept for others")
}

// TestMemoryOfAFullWorld: connections that come before those that make room for them have left change nothing that lasts.
func TestMemoryOfAFullWorld(t *testing.T) {
	const conns, least = 2, 256 << 10
	m := NewMemory(64<<20, least, conns)
	for range conns {
		require.True(t, m.Enter())
	}
	for range 50 {
		require.True(t, m.Enter(), "the newcomer, before who makes room")
		require.Zero(t, m.kept())
		m.Leave(least)
		require.Zero(t, m.kept())
	}
	for range conns {
		m.Leave(least)
	}
	require.Zero(t, m.reserved)
	require.Equal(t, conns*least, m.kept())
}
