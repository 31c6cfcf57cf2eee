package udp

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// joined is what the kernel says of joined packets.
func joined(size int) []byte {
	oob := make([]byte, unix.CmsgSpace(4))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_GRO
	h.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(oob[unix.CmsgLen(0):], uint32(size))
	return oob
}

func TestSegmentSize(t *testing.T) {
	require.Equal(t, 1200, SegmentSize(joined(1200)))
	require.Zero(t, SegmentSize(appendSegmentSize(nil, 1200)), "what is asked for is not what is told")
	require.Zero(t, SegmentSize([]byte{1, 2, 3}))
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
	require.ErrorIs(t, w.err, ErrBlocked)
	for err, want := range map[error][2]bool{unix.EIO: {true, true}, unix.EMSGSIZE: {true, false}, unix.EPERM: {}} {
		refused, forGood := isOffloadError(err)
		require.Equal(t, want, [2]bool{refused, forGood}, "%v", err)
	}
}
