package udp

import (
	"errors"
	"fmt"
	"net"
)

// BufferBytes is the default size of a socket buffer. It holds what arrives in half a second
// at 100 Mbit/s, and more than two chunks of 256 KiB.
const BufferBytes = 7 << 20

// ErrBuffers means that the kernel's limit on socket buffers is below the requested size.
var ErrBuffers = errors.New("udp: the kernel's socket buffers are too small")

// AskBuffers asks the kernel for socket buffers of at least bytes each. It never makes a
// buffer smaller. It returns ErrBuffers if the kernel gives less. The socket then works but
// drops bursts.
func AskBuffers(conn net.PacketConn, bytes int) error {
	system, ok := conn.(SystemConn)
	if !ok {
		return fmt.Errorf("%w: %T has none that could be set", ErrBuffers, conn)
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
			errs = append(errs, fmt.Errorf("%w: asked for a %s buffer of %d bytes, got %d; raise %s",
				ErrBuffers, b.name, bytes, got, b.setting))
		}
	}
	return errors.Join(errs...)
}

// kernelBuffer is one of a socket's two buffers.
type kernelBuffer struct {
	name    string // "receive" or "send", for errors
	setting string // what limits the size, for errors
	set     func(c SystemConn, bytes int) error
	option  int // socket option for the size
	force   int // socket option for the size regardless of the limit; 0 if there is none
}
