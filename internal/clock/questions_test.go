package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQuestions: ten a second until the time is known well, then one a second
// while there is other traffic.
func TestQuestions(t *testing.T) {
	var q Questions
	now := time.Unix(1000, 0)
	peer := time.Unix(9000, 0)
	require.False(t, q.Ask(now), "nobody wants to know")
	require.True(t, q.Want(now))
	require.False(t, q.Want(now.Add(time.Hour)))
	_, _, ok := q.At(now)
	require.False(t, ok)
	questions := 0
	second := func() (n int) {
		for range 100 {
			now, peer = now.Add(10*time.Millisecond), peer.Add(10*time.Millisecond)
			if q.Ask(now) {
				n++
				require.True(t, q.Asking())
				require.False(t, q.Ask(now), "one at a time")
				require.True(t, q.Answer(peer.UnixNano(), 0, now))
			}
		}
		return n
	}
	questions = second()
	require.Equal(t, 10, questions)
	require.False(t, q.NeedsDriving())
	require.Zero(t, second(), "nothing else travels")
	q.NoteTraffic()
	require.Equal(t, 1, second())
	told, bound, ok := q.At(now)
	require.True(t, ok)
	require.LessOrEqual(t, told.Sub(peer).Abs(), bound)
}

func TestBeat(t *testing.T) {
	b := Beat{Game: time.Unix(50, 0), Real: time.Unix(1000, 0)}
	require.Equal(t, time.Unix(53, 0), b.At(time.Unix(1003, 0)))
	require.Equal(t, time.Unix(1003, 0), b.Of(time.Unix(53, 0)))
}
