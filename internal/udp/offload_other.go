//go:build !linux

package udp

import "syscall"

// Only Linux can split and join UDP packets. These functions stand in for those of
// offload_linux.go.

func hasGSO(syscall.RawConn) bool { return false }

func enableGRO(syscall.RawConn) {}

func appendSegmentSize(oob []byte, _ int) []byte { return oob }

// SegmentSize returns 0, because the kernel never joins packets.
func SegmentSize([]byte) int { return 0 }

func isOffloadError(error) (refused, forGood bool) { return false, false }
