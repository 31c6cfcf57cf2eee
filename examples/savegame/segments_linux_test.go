package main

import (
	"encoding/binary"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestSegments(t *testing.T) {
	oob := make([]byte, syscall.CmsgSpace(2))
	h := (*syscall.Cmsghdr)(unsafe.Pointer(&oob[0]))
	h.Level, h.Type = levelUDP, udpSegment
	h.SetLen(syscall.CmsgLen(2))
	binary.NativeEndian.PutUint16(oob[syscall.CmsgLen(0):], 1400)
	require.Equal(t, 1, segments(1400, oob))
	require.Equal(t, 3, segments(2801, oob))
	require.Equal(t, 1, segments(2801, nil))
	require.Equal(t, 1, segments(2801, oob[:4]))
}
