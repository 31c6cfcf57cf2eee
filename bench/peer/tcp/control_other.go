//go:build !linux

package tcp

import (
	"errors"
	"net"
)

func control() string { return "unknown" }

func cubic(...net.Conn) error { return errors.New("tcp: CUBIC is asked for on Linux only") }
