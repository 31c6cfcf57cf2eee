package logs

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGate(t *testing.T) {
	var g Gate
	now := time.Unix(1000, 0)
	for i, want := range []string{"0 true", "0 false", "0 false"} {
		hidden, ok := g.Pass(now.Add(time.Duration(i)))
		require.Equal(t, want, fmt.Sprint(hidden, ok))
	}
	hidden, ok := g.Pass(now.Add(time.Second))
	require.True(t, ok)
	require.Equal(t, 2, hidden)
}

// TestGatesAreApart: each key has a gate of its own.
func TestGatesAreApart(t *testing.T) {
	gates, now := Gates[string]{}, time.Unix(1000, 0)
	for range 3 {
		gates.Pass("a", now)
	}
	_, ok := gates.Pass("b", now)
	require.True(t, ok)
	hidden, ok := gates.Pass("a", now.Add(time.Second))
	require.True(t, ok)
	require.Equal(t, 2, hidden)
}
