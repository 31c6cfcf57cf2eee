package sealed

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
)

func TestReadJoined(t *testing.T) {
	s := NewSocket(netsim.NewPacketConn(), SocketConfig{})
	ours := "\x04" // though too short for an id
	end := errors.New("closed")
	c := &udpConn{systemConn: systemConn{plainConn: &plainConn{socket: s}}, reader: &script{joined: testkit.GRO, end: end, batches: [][]string{
		{"@single", "gro:2:@a@b@c@", "gro:1:" + ours + "@" + ours + "A", ""},
		{ours, "gro:1:" + ours + ours},
		{"@last"},
	}}}
	var got []string
	ms := messages(2)
	for {
		n, err := c.ReadBatch(ms, 0)
		if err != nil {
			require.ErrorIs(t, err, end)
			break
		}
		require.Positive(t, n)
		got = append(got, text(ms[:n])...)
	}
	require.Equal(t, []string{"@single", "@a", "@b", "@c", "@", "@", "A", "@last"}, got)
	require.EqualValues(t, 5, s.badSize.Load())
}
