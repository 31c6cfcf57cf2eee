package netsim

import (
	"net"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// firstWaiting is how many packets an inbox has room for at first.
	firstWaiting = 8
	// bufferSize holds any packet that quic-go builds; larger ones are allocated.
	bufferSize = 2048
	// maxFree is how many buffers an inbox keeps for reuse.
	maxFree = 512
)

// inbox holds the packets that have arrived at a socket and that nobody has read. The socket's mu guards it.
type inbox struct {
	packets recovery.Ring[datagram]
	bytes   int // in packets
	limit   int // largest value of bytes
	free    [][]byte
}

type datagram struct {
	data []byte
	from *net.UDPAddr
}

// put appends a packet, and then owns d.data. It returns false, and recycles the memory, if the packet does not fit.
func (i *inbox) put(d datagram) bool {
	if i.bytes+len(d.data) > i.limit {
		i.recycle(d.data)
		return false
	}
	*i.packets.Push(firstWaiting) = d
	i.bytes += len(d.data)
	return true
}

// take removes the oldest packet, whose data the caller gives to recycle.
func (i *inbox) take() (d datagram, ok bool) {
	if i.packets.Len() == 0 {
		return datagram{}, false
	}
	d = i.packets.Take()
	i.bytes -= len(d.data)
	return d, true
}

// clear drops all packets and the buffers kept for reuse.
func (i *inbox) clear() {
	i.packets.Trim()
	i.bytes, i.free = 0, nil
}

// buffer returns a buffer of size bytes; recycle takes it back.
func (i *inbox) buffer(size int) []byte {
	if size > bufferSize {
		return make([]byte, size)
	}
	if n := len(i.free); n > 0 {
		b := i.free[n-1]
		i.free = i.free[:n-1]
		return b[:size]
	}
	return make([]byte, size, bufferSize)
}

func (i *inbox) recycle(b []byte) {
	if cap(b) >= bufferSize && len(i.free) < maxFree {
		i.free = append(i.free, b)
	}
}
