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

func TestSegmentSizeRoundTrip(t *testing.T) {
	require.Equal(t, 1200, segmentSize(groMessage(1200)))
	require.Zero(t, segmentSize(appendSegmentSize(nil, 1200)), "what is asked for is not what is told")
	require.Zero(t, segmentSize([]byte{1, 2, 3}))
}

// A send buffer that is full is told from other errors, and what was not sent is known.
func TestWriterErrors(t *testing.T) {
	var w systemWriter
	w.finish(10, nil)
	w.finish(10, unix.EPERM)
	require.Equal(t, 20, w.sent, "as good as lost on the way")
	require.ErrorIs(t, w.err, unix.EPERM)
	w.finish(10, unix.EAGAIN)
	require.Equal(t, 20, w.sent)
	require.ErrorIs(t, w.err, errBlocked)
	for err, want := range map[error][2]bool{unix.EIO: {true, true}, unix.EMSGSIZE: {true, false}, unix.EPERM: {}} {
		refused, forGood := isOffloadError(err)
		require.Equal(t, want, [2]bool{refused, forGood}, "%v", err)
	}
}
