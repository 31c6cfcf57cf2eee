package netsim

import (
	"net"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// An arrival is a packet in flight.
type arrival struct {
	at     time.Time // arrival time
	packet []byte
	addr   *net.UDPAddr // source or destination, as passed to Link.send
}

// arrivals is a queue of packets in flight, ordered by arrival time and then by the order in which
// they were sent. Because delays are similar, push rarely moves a packet far.
type arrivals struct{ recovery.Ring[arrival] }

// firstArrivals is the initial capacity of an arrivals queue.
const firstArrivals = 8

// next returns the arrival time of the earliest packet.
func (r *arrivals) next() (at time.Time, ok bool) {
	if r.Len() == 0 {
		return time.Time{}, false
	}
	return r.At(r.Oldest).at, true
}

// push adds a packet at its place in the order.
func (r *arrivals) push(a arrival) {
	place := r.Push(firstArrivals)
	for n := r.Next - 1; n > r.Oldest && r.At(n-1).at.After(a.at); n-- {
		*place = *r.At(n - 1)
		place = r.At(n - 1)
	}
	*place = a
}
