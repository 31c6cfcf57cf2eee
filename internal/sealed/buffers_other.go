//go:build !(darwin || freebsd || linux)

package sealed

import "syscall"

var kernelBuffers = []kernelBuffer{
	{name: "receive", setting: "the system's limit", set: systemConn.SetReadBuffer},
	{name: "send", setting: "the system's limit", set: systemConn.SetWriteBuffer},
}

// ask believes a system that does not complain.
func (k kernelBuffer) ask(_ syscall.RawConn, c systemConn, bytes int) (got int, err error) {
	return bytes, k.set(c, bytes)
}
