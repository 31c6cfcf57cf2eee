//go:build !linux

package tcp

import (
	"fmt"
	"net"
)

// control says what the report does: only Linux is asked.
func control() string { return "unknown" }

func setControl(control string, _ ...net.Conn) error {
	return fmt.Errorf("tcp: congestion control %s is asked for on Linux only", control)
}
