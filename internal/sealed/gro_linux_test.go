package sealed

import (
	"encoding/binary"
	"errors"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quivernet/quiver/internal/netsim"
)

// groMessage is what the kernel says of joined packets.
func groMessage(size int) []byte {
	oob := make([]byte, unix.CmsgSpace(4))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_GRO
	h.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(oob[unix.CmsgLen(0):], uint32(size))
	return oob
}

func TestReadJoined(t *testing.T) {
	s := NewSocket(netsim.NewPacketConn(), SocketConfig{})
	ours := "\x04" // though too short for an id
	end := errors.New("closed")
	c := &groConn{udpConn: &udpConn{plainConn: &plainConn{socket: s}, batch: &script{joined: groMessage, end: end, batches: [][]string{
		{"@single", "gro:2:@a@b@c@", "gro:1:" + ours + "@" + ours + "A", ""},
		{ours, "gro:1:" + ours + ours},
		{"@last"},
	}}}}
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
	require.EqualValues(t, 5, s.Stats().Size)
}
