package udp

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hasGSO reports whether the kernel can split a batch into packets (Linux 4.18). A device may
// still refuse a batch later.
func hasGSO(raw syscall.RawConn) bool {
	var optErr error
	err := raw.Control(func(fd uintptr) {
		_, optErr = unix.GetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT)
	})
	return err == nil && optErr == nil
}

// enableGRO lets the kernel join received packets if it can (Linux 5.0).
func enableGRO(raw syscall.RawConn) {
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	})
}

// appendSegmentSize appends the control message that makes the kernel split a batch into
// packets of size bytes.
func appendSegmentSize(oob []byte, size int) []byte {
	start := len(oob)
	oob = append(oob, make([]byte, unix.CmsgSpace(2))...)
	h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[start]))
	h.Level = unix.IPPROTO_UDP
	h.Type = unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(oob[start+unix.CmsgLen(0):], uint16(size))
	return oob
}

// SegmentSize returns the size of the packets that the kernel joined, or 0 if it joined none.
func SegmentSize(oob []byte) int {
	for len(oob) > 0 {
		h, body, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return 0
		}
		if h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO && len(body) >= 4 {
			return int(binary.NativeEndian.Uint32(body))
		}
		oob = rest
	}
	return 0
}

// isOffloadError reports whether a batch was refused because it is a batch, so that its packets may
// still be sent one by one. forGood is true if the device refuses all batches, as devices without
// checksums do, with EIO. Devices whose MTU is below the packet size refuse a batch with EINVAL or
// EMSGSIZE.
func isOffloadError(err error) (refused, forGood bool) {
	switch err {
	case unix.EIO:
		return true, true
	case unix.EINVAL, unix.EMSGSIZE:
		return true, false
	}
	return false, false
}
