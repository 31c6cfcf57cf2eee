package link

import "sync/atomic"

// Stats is a snapshot of a link's counters.
type Stats struct {
	OtherIn, OtherOut uint64 // bytes of all machines other than the first, over both carriers

	DroppedRing    uint64 // datagrams dropped because the machines couldn't keep up and the ring was full
	DroppedUnknown uint64 // datagrams dropped because they were empty or belonged to no machine

	MaxDatagram int // the current maximum size of a datagram, in bytes
}

// counters holds what Stats reports. The counters are atomic because Stats doesn't take the lock.
type counters struct {
	otherIn, otherOut atomic.Uint64
	droppedUnknown    atomic.Uint64
	max               atomic.Uint64
}

// Stats returns a snapshot. It doesn't take the lock.
func (l *Link) Stats() Stats {
	return Stats{
		OtherIn:        l.counts.otherIn.Load(),
		OtherOut:       l.counts.otherOut.Load(),
		DroppedRing:    l.ring.dropped.Load(),
		DroppedUnknown: l.counts.droppedUnknown.Load(),
		MaxDatagram:    int(l.counts.max.Load()),
	}
}
