package budget

import (
	"math"
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

	huge := NewMemory(math.MaxInt, least, 1)
	require.True(t, huge.Enter())
	require.Equal(t, 1<<30, huge.Grow(1<<28, math.MaxInt))
	require.Equal(t, math.MaxInt/4, huge.Grow(math.MaxInt/4-1, math.MaxInt/4), "four times that would overflow an int of 32 bits")

	small := NewMemory(3*least, least, 128)
	require.True(t, small.Enter())
	require.Equal(t, least, small.Grow(least, limit), "all is kept for others")
}

// TestMemoryOfAFullWorld: connections that enter before those that must make
// room have left change nothing permanently.
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
	for range 50 {
		m.Replace()
		require.Equal(t, conns*least, m.reserved)
		m.Leave(0)
		require.Zero(t, m.kept())
	}
	for range conns {
		m.Leave(least)
	}
	require.Zero(t, m.reserved)
	require.Equal(t, conns*least, m.kept())
}

// TestMemoryOfIdleConnections: connections that join and do nothing leave to others
// half of what is not kept for all, and a connection that leaves returns everything.
func TestMemoryOfIdleConnections(t *testing.T) {
	const least, limit, conns, total = 256 << 10, 4 << 20, 1024, 512 << 20
	m := NewMemory(total, least, conns)
	var held []int
	for range conns / 2 {
		require.True(t, m.Enter())
		held = append(held, m.Join(limit))
	}
	require.Equal(t, limit, held[0])
	require.Less(t, held[31], 2<<20)
	require.Less(t, held[conns/2-1], 2*least)
	require.LessOrEqual(t, m.reserved, total-m.kept()-(total-conns*least)/2)
	for i := conns/2 - 1; i > conns/2-17; i-- {
		for range 10 {
			held[i] = m.Grow(held[i], limit)
		}
		require.Equal(t, limit, held[i], "who needs it has it")
	}
	for _, n := range held {
		m.Leave(n)
	}
	require.Zero(t, m.reserved)

	full := NewMemory(conns*least, least, conns)
	require.True(t, full.Enter())
	require.Equal(t, least, full.Join(limit), "all is kept for others")
	require.Equal(t, least, NewMemory(least, least, conns).Join(limit))
}
