package main

import (
	"encoding/binary"
	"syscall"
)

// From linux/udp.h.
const (
	levelUDP   = syscall.IPPROTO_UDP
	udpSegment = 103
)

// segments returns into how many packets the kernel cuts a write of that many bytes, which the control message says.
func segments(bytes int, oob []byte) int {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return 1
	}
	for _, m := range messages {
		if m.Header.Level != levelUDP || m.Header.Type != udpSegment || len(m.Data) < 2 {
			continue
		}
		if size := int(binary.NativeEndian.Uint16(m.Data)); size > 0 {
			return (bytes + size - 1) / size
		}
	}
	return 1
}
