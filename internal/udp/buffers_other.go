//go:build !(darwin || freebsd || linux)

package udp

import "syscall"

var kernelBuffers = []kernelBuffer{
	{name: "receive", setting: "the system's limit", set: SystemConn.SetReadBuffer},
	{name: "send", setting: "the system's limit", set: SystemConn.SetWriteBuffer},
}

// ask sets the buffer's size. Without an error, it assumes that the buffer has that size, because
// it can't ask the system.
func (k kernelBuffer) ask(_ syscall.RawConn, c SystemConn, bytes int) (got int, err error) {
	return bytes, k.set(c, bytes)
}
