//go:build !(darwin || freebsd || linux)

package udp

import "syscall"

var kernelBuffers = []kernelBuffer{
	{name: "receive", setting: "the system's limit", set: SystemConn.SetReadBuffer},
	{name: "send", setting: "the system's limit", set: SystemConn.SetWriteBuffer},
}

// ask sets the buffer's size. If the system returns no error, ask assumes that the buffer has
// that size.
func (k kernelBuffer) ask(_ syscall.RawConn, c SystemConn, bytes int) (got int, err error) {
	return bytes, k.set(c, bytes)
}
