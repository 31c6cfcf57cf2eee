package tcp

import (
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// control returns the congestion control that the kernel uses unless told otherwise.
func control() string {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// cubic has both ends use CUBIC, the default of most systems.
func cubic(ends ...net.Conn) error {
	for _, c := range ends {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			return err
		}
		var set error
		err = raw.Control(func(fd uintptr) {
			set = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic")
		})
		if err != nil {
			return err
		}
		if set != nil {
			return set
		}
	}
	return nil
}
