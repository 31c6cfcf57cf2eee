package udp

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quivernet/quiver/internal/testkit"
)

func TestSegmentSize(t *testing.T) {
	require.Equal(t, 1200, SegmentSize(testkit.GRO(1200)))
	require.Zero(t, SegmentSize(appendSegmentSize(nil, 1200)), "what is asked for is not what is told")
	require.Zero(t, SegmentSize([]byte{1, 2, 3}))
}

// TestTunnelWithoutAPeer: a tunnel that knows nobody at an address may do so in a moment.
func TestTunnelWithoutAPeer(t *testing.T) { require.True(t, IsLoss(unix.ENOKEY)) }

// A full send buffer is distinguished from other errors, and what was not sent is known.
func TestWriterErrors(t *testing.T) {
	var w systemWriter
	w.recordSend(10, nil)
	w.recordSend(10, unix.EPERM)
	require.Equal(t, 20, w.sent, "as good as lost on the way")
	require.ErrorIs(t, w.err, unix.EPERM)
	w.recordSend(10, unix.EAGAIN)
	require.Equal(t, 20, w.sent)
	require.ErrorIs(t, w.err, ErrBlocked)
	for err, want := range map[error][2]bool{unix.EIO: {true, true}, unix.EMSGSIZE: {true, false}, unix.EPERM: {}} {
		refused, forGood := isOffloadError(err)
		require.Equal(t, want, [2]bool{refused, forGood}, "%v", err)
	}
}
