//go:build !linux

package udp

import "syscall"

// Only Linux can split and join UDP packets.

func hasGSO(syscall.RawConn) bool { return false }

func enableGRO(syscall.RawConn) {}

func appendSegmentSize(oob []byte, _ int) []byte { return oob }

func SegmentSize([]byte) int { return 0 }

func isOffloadError(error) (refused, forGood bool) { return false, false }
