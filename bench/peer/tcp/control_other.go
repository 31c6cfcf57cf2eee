//go:build !linux

package tcp

import (
	"fmt"
	"net"
)

func control() string { return "unknown" }

func use(control string, _ ...net.Conn) error {
	return fmt.Errorf("tcp: congestion control %s is asked for on Linux only", control)
}
