//go:build darwin || freebsd || linux

package udp

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

var kernelBuffers = []kernelBuffer{
	{"receive", receiveSetting, SystemConn.SetReadBuffer, unix.SO_RCVBUF, forceReceive},
	{"send", sendSetting, SystemConn.SetWriteBuffer, unix.SO_SNDBUF, forceSend},
}

// ask enlarges the buffer if it has fewer than the given bytes, and returns its resulting size.
func (k kernelBuffer) ask(raw syscall.RawConn, c SystemConn, bytes int) (got int, err error) {
	got, err = k.size(raw)
	if err != nil || got >= bytes {
		return got, err
	}
	_ = k.set(c, bytes) // the size shows whether it worked
	got, err = k.size(raw)
	if err != nil || got >= bytes || k.force == 0 {
		return got, err
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, k.force, bytes) })
	return k.size(raw)
}

// size asks the kernel for the buffer's size.
func (k kernelBuffer) size(raw syscall.RawConn) (bytes int, err error) {
	var optErr error
	err = raw.Control(func(fd uintptr) {
		bytes, optErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, k.option)
	})
	if err = errors.Join(err, optErr); err != nil {
		return 0, fmt.Errorf("udp: size of the %s buffer: %w", k.name, err)
	}
	return bytes, nil
}
