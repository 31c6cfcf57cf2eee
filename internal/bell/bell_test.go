package bell

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBell: a ring lasts until it is heard, and many before that are one.
func TestBell(t *testing.T) {
	b := New()
	require.False(t, b.Heard())
	b.Ring()
	b.Ring()
	require.True(t, b.Pending())
	require.True(t, b.Pending(), "it stays")
	require.True(t, b.Heard())
	require.False(t, b.Pending())
	require.False(t, b.Heard())
	b.Ring()
	<-b
}

func TestClosed(t *testing.T) {
	done := make(chan struct{})
	require.False(t, Closed(done))
	close(done)
	require.True(t, Closed(done))
	require.True(t, Closed(done), "it stays so")
}
