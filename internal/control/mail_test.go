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
	for _, bad := range [][]byte{
		{idMessage}, AppendMessage(nil, Message{0, make([]byte, MaxMessage+1)}),
		{idTaken}, AppendTaken(nil, Taken{0}), AppendTaken(nil, Taken{Window + 1}), append(AppendTaken(nil, Taken{1}), 0),
	} {
		_, err := Parse(bad)
		requireKind(t, PayloadFail, err)
	}
}

// TestWindow: neither side counts more than there is.
func TestWindow(t *testing.T) {
	var out Outgoing
	var in Incoming
	for range Window {
		require.False(t, out.Full())
		out.Sent()
		require.True(t, in.Receive())
	}
	require.True(t, out.Full())
	require.False(t, in.Receive())
	require.Equal(t, Window, in.Owed())
	in.Told(Taken{3})
	require.True(t, out.Taken(Taken{3}))
	require.False(t, out.Full())
	require.False(t, out.Taken(Taken{Window - 2}))
}
