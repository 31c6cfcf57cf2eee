//go:build !linux

package udp

import (
	"errors"
	"syscall"
)

// Only Linux cuts and joins UDP packets.

func hasGSO(syscall.RawConn) bool { return false }

func enableGRO(syscall.RawConn) bool { return false }

func appendSegmentSize(oob []byte, _ int) []byte { return oob }

func SegmentSize([]byte) int { return 0 }

func isOffloadError(error) (refused, forGood bool) { return false, false }

// Reader is never used.
type Reader struct{}

func NewReader(*Socket) *Reader { return new(Reader) }

func (*Reader) Read() (ms []Message, waited bool, err error) {
	return nil, false, errors.ErrUnsupported
}
