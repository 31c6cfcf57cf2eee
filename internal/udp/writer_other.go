//go:build !(darwin || freebsd || linux)

package udp

import (
	"net/netip"
	"syscall"
)

const hasSystemWriter = false

// A systemWriter does nothing on these systems, where package net sends. It only has the methods
// that Writer calls.
type systemWriter struct{}

func (systemWriter) ready() bool { return false }

func (systemWriter) aim(*Socket, netip.AddrPort, netip.Addr) {}

func (systemWriter) write(*Socket, []byte, int, bool) (int, error) { return 0, nil }

func isIPv6(syscall.RawConn) bool { return false }
