package udp

import (
	"errors"
	"fmt"
	"net"
)

// BufferBytes is the default size of a socket buffer. It holds what arrives in half a second at 100
// Mbit/s.
const BufferBytes = 7 << 20

// ErrBuffers means that the kernel limits socket buffers to less than the requested size.
var ErrBuffers = errors.New("udp: socket buffer too small")

// AskBuffers asks the kernel for socket buffers of at least the given size each. It never makes a
// buffer smaller. It returns ErrBuffers if the kernel allows less, in which case the socket works
// but may drop packets when many arrive at once.
func AskBuffers(conn net.PacketConn, bytes int) error {
	system, ok := conn.(SystemConn)
	if !ok {
		return fmt.Errorf("%w: the buffers of a %T cannot be set", ErrBuffers, conn)
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return errors.Join(system.SetReadBuffer(bytes), system.SetWriteBuffer(bytes))
	}
	var errs []error
	for _, b := range kernelBuffers {
		got, err := b.ask(raw, system, bytes)
		if err != nil {
			errs = append(errs, err)
		} else if got < bytes {
			errs = append(errs, fmt.Errorf("%w: %s buffer has %d bytes instead of %d: raise %s",
				ErrBuffers, b.name, got, bytes, b.setting))
		}
	}
	return errors.Join(errs...)
}

// A kernelBuffer is one of a socket's two buffers.
type kernelBuffer struct {
	name    string // "receive" or "send", for errors
	setting string // what limits the size, for errors
	set     func(c SystemConn, bytes int) error
	option  int // socket option to get the size
	force   int // socket option to set the size regardless of the limit; 0 if there is none
}
