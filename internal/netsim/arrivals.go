package netsim

import (
	"net"
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// arrival is a packet on its way.
type arrival struct {
	at     time.Time
	packet []byte
	addr   *net.UDPAddr // see Link.send
}

// arrivals are the packets on their way that were delayed alike, so that they hardly overtake each other. The earliest comes first; of those
// that arrive at the same time, the one sent first.
type arrivals struct{ recovery.Ring[arrival] }

// next returns when the earliest arrives.
func (r *arrivals) next() (at time.Time, ok bool) {
	if r.Len() == 0 {
		return time.Time{}, false
	}
	return r.At(r.Oldest).at, true
}

func (r *arrivals) push(a arrival) {
	place := r.Push(8)
	for n := r.Next - 1; n > r.Oldest && r.At(n-1).at.After(a.at); n-- {
		*place = *r.At(n - 1)
		place = r.At(n - 1)
	}
	*place = a
}
