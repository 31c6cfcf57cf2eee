package pace_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStoppedTriesAgain: what was discarded is no longer in flight, and a
// packet may show whether the path carries again.
func TestStoppedTriesAgain(t *testing.T) {
	s := inQueue(t)
	s.send(2)
	s.pass(11 * time.Second)
	_, ok := s.Next(s.now, packet, s.inFlight)
	require.False(t, ok)
	at, ok := s.Next(s.now, packet, 0)
	require.True(t, ok)
	require.False(t, at.After(s.now))
}
