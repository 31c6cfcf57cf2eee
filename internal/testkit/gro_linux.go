package testkit

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// GRO returns the control message with which the kernel reports that it has joined packets of
// size bytes.
func GRO(size int) []byte {
	oob := make([]byte, unix.CmsgSpace(4))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
	h.Level = unix.IPPROTO_UDP
	h.Type = unix.UDP_GRO
	h.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(oob[unix.CmsgLen(0):], uint32(size))
	return oob
}
