//go:build unix

package udp

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLosses: quic-go must hear of packets that are too large, and of an interface without GSO.
func TestLosses(t *testing.T) {
	for no, want := range map[syscall.Errno]bool{
		syscall.ENETUNREACH: true, syscall.ENETDOWN: true, syscall.EPERM: true, syscall.ENOBUFS: true, syscall.EADDRNOTAVAIL: true,
		syscall.ECONNABORTED: true, syscall.EDESTADDRREQ: true, syscall.ESRCH: true,
		syscall.EMSGSIZE: false, syscall.EIO: false, syscall.EBADF: false, syscall.EAFNOSUPPORT: false,
	} {
		require.Equal(t, want, IsLoss(&net.OpError{Op: "write", Net: "udp", Err: os.NewSyscallError("sendmsg", no)}), no.Error())
	}
	require.False(t, IsLoss(nil))
	require.False(t, IsLoss(net.ErrClosed))
	require.False(t, IsLoss(errors.New("of a test")))
}
