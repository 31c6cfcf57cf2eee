package outbox

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCallsKeepTheirOrder: what is put back goes before what waits, in the
// order in which it was cut.
func TestCallsKeepTheirOrder(t *testing.T) {
	var c Calls
	for _, call := range []string{"one", "two", "three", "four"} {
		require.True(t, c.Add([]byte(call)))
	}
	first := c.Cut(nil, 8)
	second := c.Cut(nil, 6)
	require.Equal(t, "\x03one\x03two", string(first))
	require.Equal(t, "\x05three", string(second))
	require.True(t, c.Add([]byte("five")))
	c.Back(first)
	c.Back(second)
	require.Equal(t, "\x03one\x03two\x05three\x04four\x04five", string(c.Cut(nil, 1000)))
	require.True(t, c.Empty())
	require.Equal(t, 2, Count(first))
	require.Zero(t, c.Close())
	c.Back(first)
	require.Equal(t, 2, c.Close())
	require.True(t, c.Empty())
}

func TestCallsAreBounded(t *testing.T) {
	var c Calls
	call := bytes.Repeat([]byte{1}, 1000)
	n := 0
	for c.Add(call) {
		n++
	}
	require.Equal(t, 8, n)

	c = Calls{}
	require.False(t, c.Add(make([]byte, maxCalls+1)))
	require.True(t, c.Empty())
	require.True(t, c.Add(make([]byte, maxCalls)))
}

// TestCutIsExact: the length before a call counts, too.
func TestCutIsExact(t *testing.T) {
	var c Calls
	require.True(t, c.Add([]byte("one")))
	require.True(t, c.Add([]byte("two")))
	require.Empty(t, c.Cut(nil, 3))
	require.Equal(t, "\x03one", string(c.Cut(nil, 7)))
	require.Equal(t, "\x03two", string(c.Cut(nil, 4)))
}

func TestRoom(t *testing.T) {
	var r Room
	r.Adapt(0)
	require.Equal(t, 2*minRoom, r.Bytes())
	for range 10 {
		r.Adapt(0)
	}
	require.Equal(t, maxRoom, r.Bytes())
	r.Adapt(maxRoom - 10_000)
	require.Equal(t, 20_000, r.Bytes())
	r.Adapt(20_000)
	require.Equal(t, minRoom, r.Bytes())
}
