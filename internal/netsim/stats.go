package netsim

// A Fate is what happens to a packet that is put into a link.
type Fate uint8

const (
	Carried   Fate = iota // it will arrive
	LostQueue             // the bottleneck's queue was full
	LostMTU               // the packet was larger than the path's MTU
	LostDark              // the packet left the bottleneck during an interruption
	Lost                  // at random, or by Config.Lose
	LostBurst             // in a burst
)

var fates = [...]string{
	Carried:   "carried",
	LostQueue: "queue full",
	LostMTU:   "above the MTU",
	LostDark:  "dark",
	Lost:      "lost",
	LostBurst: "lost in a burst",
}

func (f Fate) String() string {
	if int(f) < len(fates) {
		return fates[f]
	}
	return "unknown fate"
}

// Stats are the counters of one direction.
type Stats struct {
	Packets, Bytes               uint64 // passed to Send; bytes without overhead
	Carried, CarriedBytes        uint64 // left the bottleneck, even if lost later; bytes with overhead
	Delivered, DeliveredBytes    uint64 // returned by Deliver, including copies; bytes without overhead
	Duplicated, Reordered        uint64
	LostQueue, LostMTU, LostDark uint64
	Lost, LostBurst              uint64
	Overrun                      uint64 // dropped by a PacketConn that was closed or whose read buffer was full
}

// Dropped returns the number of packets dropped for any reason.
func (s Stats) Dropped() uint64 {
	return s.LostQueue + s.LostMTU + s.LostDark + s.Lost + s.LostBurst + s.Overrun
}

// Add returns the sum of two Stats.
func (s Stats) Add(o Stats) Stats {
	return Stats{
		Packets: s.Packets + o.Packets, Bytes: s.Bytes + o.Bytes,
		Carried: s.Carried + o.Carried, CarriedBytes: s.CarriedBytes + o.CarriedBytes,
		Delivered: s.Delivered + o.Delivered, DeliveredBytes: s.DeliveredBytes + o.DeliveredBytes,
		Duplicated: s.Duplicated + o.Duplicated, Reordered: s.Reordered + o.Reordered,
		LostQueue: s.LostQueue + o.LostQueue, LostMTU: s.LostMTU + o.LostMTU, LostDark: s.LostDark + o.LostDark,
		Lost: s.Lost + o.Lost, LostBurst: s.LostBurst + o.LostBurst,
		Overrun: s.Overrun + o.Overrun,
	}
}

// countLoss counts a lost packet.
func (s *Stats) countLoss(f Fate) {
	switch f {
	case LostQueue:
		s.LostQueue++
	case LostMTU:
		s.LostMTU++
	case LostDark:
		s.LostDark++
	case Lost:
		s.Lost++
	case LostBurst:
		s.LostBurst++
	}
}
