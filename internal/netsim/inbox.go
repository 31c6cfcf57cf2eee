package netsim

import (
	"net"

	"github.com/quivernet/quiver/internal/recovery"
)

const (
	// firstWaiting is the initial capacity of an inbox, in packets.
	firstWaiting = 8
	// bufferSize is large enough for any packet that quic-go builds. A larger packet gets a
	// buffer of its own.
	bufferSize = 2048
	// maxFree limits how many buffers an inbox keeps for reuse.
	maxFree = 512
)

// An inbox is the read buffer of a socket, which holds packets that have arrived but haven't been
// read yet. The socket's mu guards it.
type inbox struct {
	packets recovery.Ring[datagram]
	bytes   int      // total size of packets
	limit   int      // maximum for bytes
	free    [][]byte // buffers for reuse
}

// A datagram is a packet and its source.
type datagram struct {
	data []byte
	from *net.UDPAddr
}

// put adds a packet and takes ownership of d.data. It returns false if the packet doesn't fit and
// is dropped.
func (i *inbox) put(d datagram) bool {
	if i.bytes+len(d.data) > i.limit {
		i.recycle(d.data)
		return false
	}
	slot := i.packets.Push(firstWaiting)
	*slot = d
	i.bytes += len(d.data)
	return true
}

// take removes the oldest packet. The caller must pass its data to recycle afterwards.
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
	i.bytes = 0
	i.free = nil
}

// buffer returns a buffer of size bytes. It must be passed to recycle when its packet has been read
// or dropped.
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

// recycle keeps a buffer for reuse, unless it is too small or there are maxFree already.
func (i *inbox) recycle(b []byte) {
	if cap(b) >= bufferSize && len(i.free) < maxFree {
		i.free = append(i.free, b)
	}
}
