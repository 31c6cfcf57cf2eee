//go:build !linux

package tcp

import (
	"fmt"
	"net"
)

// control returns "unknown": it is only known on Linux.
func control() string { return "unknown" }

func setControl(control string, _ ...net.Conn) error {
	return fmt.Errorf("tcp: congestion control %s is asked for on Linux only", control)
}
