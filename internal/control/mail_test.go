package control

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMessages(t *testing.T) {
	for _, m := range []Message{{7, []byte("hello")}, {255, []byte{}}, {0, make([]byte, MaxMessage)}} {
		parsed, err := Parse(AppendMessage(nil, m))
		require.NoError(t, err)
		require.Equal(t, m, parsed)
	}
	requireMessage(t, Taken{Window}, AppendTaken(nil, Taken{Window}))
	require.True(t, IsTaken(AppendTaken(nil, Taken{1})))
	require.False(t, IsTaken(AppendMessage(nil, Message{})) || IsTaken(nil))
	for _, bad := range [][]byte{
		{idMessage}, AppendMessage(nil, Message{0, make([]byte, MaxMessage+1)}),
		{idTaken}, AppendTaken(nil, Taken{0}), AppendTaken(nil, Taken{Window + 1}), append(AppendTaken(nil, Taken{1}), 0),
	} {
		_, err := Parse(bad)
		requireKind(t, PayloadFail, err)
	}
}

// TestWindow: neither end counts more than there is.
func TestWindow(t *testing.T) {
	var m Mail
	for range Window {
		require.False(t, m.Full())
		require.True(t, m.Add())
	}
	require.True(t, m.Full())
	require.False(t, m.Add())
	require.Equal(t, Window, m.Open())
	require.True(t, m.Taken(Taken{3}))
	require.False(t, m.Full())
	require.False(t, m.Taken(Taken{Window - 2}))
	require.Equal(t, Window-3, m.Open())
	require.True(t, m.Taken(Taken{Window - 3}), "all at once")
	require.Zero(t, m.Open())
}
