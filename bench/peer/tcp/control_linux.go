package tcp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// control returns the congestion control that the kernel uses by default.
func control() string {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// setControl sets the congestion control of TCP connections.
func setControl(control string, ends ...net.Conn) error {
	for _, c := range ends {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			return err
		}
		var set error
		err = raw.Control(func(fd uintptr) {
			set = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, control)
		})
		if err = errors.Join(err, set); err != nil {
			return fmt.Errorf("tcp: congestion control %s: %w", control, err)
		}
	}
	return nil
}
