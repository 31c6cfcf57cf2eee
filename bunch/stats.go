package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Stats is a snapshot of a connection. Counters never decrease.
type Stats struct {
	// MinRTT is the minimum over about the last 10 s, and at most SmoothedRTT.
	LatestRTT, SmoothedRTT, MinRTT, RTTVar time.Duration

	PacketsSent, PacketsReceived uint64
	BytesSent, BytesReceived     uint64
	BunchesSent, BunchesReceived uint64
	BunchesResent                uint64
	PayloadSent                  uint64 // the payload in BytesSent; resent payload counts again
	PacketsOutOfOrder            uint64 // received after a packet that was sent later
	// Ticks counts calls of Cork(true). TicksSaturated counts those that began while play (the
	// game's own traffic) of an earlier tick was still queued.
	Ticks, TicksSaturated uint64
	PacketsLost           uint64 // declared lost, though some may have arrived late
	PacketsMissing        uint64 // packet numbers that have not arrived; the peer skipped some of them
	SpuriousLosses        uint64 // declared lost, but acked later
	// RepairsSent counts repair bunches, which BunchesSent includes. EntriesRestored counts the
	// entries of reliable buffers that the peer's repair bunches restored.
	RepairsSent, EntriesRestored uint64
	AcksOnlySent, ProbesSent     uint64

	InFlight     int // bytes
	Window       int // bytes that bulk (the traffic of transfers) may have in flight
	DeliveryRate int // bytes per second
	Queued       int // bytes queued here that were never sent
	Unacked      int // memory of unacknowledged reliable messages of play; see Config.SendLimit

	Freed uint64 // memory of reliable messages of play that acks have freed so far

	DroppedDuplicate     uint64 // packets and bunches that arrived twice
	DroppedClosedChannel uint64 // unreliable and tracked bunches for a closed channel
	// Repair bunches that were not needed, because they or their entries had already arrived, or
	// that exceeded the limit.
	DroppedRepairs    uint64
	DroppedBeforeOpen uint64 // unreliable and tracked messages for channels not open yet
	// UnreliableSequenced messages that a newer one overtook, and parts of unreliable messages
	// that were sent more than 512 packets before the newest part with the same message number.
	DroppedLate uint64
	// Unreliable messages that waited for longer than 200 ms plus a round trip, that waited
	// through an outage, or that exceeded the limit. At either end, the limit for all messages is
	// 256 KiB, including 64 bytes of overhead for each.
	DroppedUnreliable uint64
	// Tracked messages that exceeded the same limit. The sender also counts those that became
	// stale in an outage or were still queued when their channel closed.
	DroppedTracked  uint64
	DroppedAssembly uint64 // unreliable messages in parts that were never complete
}

// dropClosed counts a bunch for a channel that its sender has closed.
//
// A reliable bunch must be a duplicate, since everything reliable arrived before the close.
// Duplicates are common, because small closes are usually sent twice on a path that loses
// packets. An unreliable bunch may well have arrived for the first time.
func (s *Stats) dropClosed(h header) {
	switch {
	case h.isRepair():
		s.DroppedRepairs++
	case h.reliable():
		s.DroppedDuplicate++
	default:
		s.DroppedClosedChannel++
	}
}

// Stats returns the counters since the connection began, along with the current state. Its cost
// doesn't depend on the number of channels.
func (c *Conn) Stats() Stats {
	s := c.stats
	s.LatestRTT = c.congestion.Latest
	s.SmoothedRTT = c.congestion.Smoothed
	s.RTTVar = c.congestion.Variance
	// Min starts over now and then. While it has few samples, it may be too high, because the first
	// of them includes the ack delay (RFC 9002, section 5.2), which the smoothed round trip never
	// does (section 5.3).
	s.MinRTT = min(c.congestion.Min, c.congestion.Smoothed)
	s.PacketsMissing = c.received.missing
	s.DroppedAssembly = c.assemblies.evicted
	s.BunchesSent += c.repairs.sent
	s.RepairsSent = c.repairs.sent
	s.EntriesRestored = c.restorer.restored
	s.DroppedRepairs += c.restorer.dropped
	s.InFlight = c.sent.bytesInFlight
	if c.path.Fates {
		s.Window = c.path.Window
		s.DeliveryRate = recovery.Bytes(c.path.Rate, time.Second)
	} else {
		s.Window = c.congestion.Window(fullDatagram)
		s.DeliveryRate = recovery.Bytes(c.congestion.Rate(), time.Second)
	}
	s.Queued = c.Queued()
	s.Unacked = c.flow.held
	s.Freed = c.flow.freed
	return s
}

// Lost returns the number of packets that were declared lost.
func (c *Conn) Lost() uint64 { return c.stats.PacketsLost }

// Acked returns one more than the number of the newest packet that the peer has acknowledged.
func (c *Conn) Acked() uint64 { return c.loss.Largest }

// InFlight returns the number of bytes in packets that are neither acknowledged nor lost.
func (c *Conn) InFlight() int { return c.sent.bytesInFlight }

// RecentRTT returns the minimum of at least the last 8 round trips, the minimum of all round
// trips, and the number of measurements of recent. recent is 0 if it's unknown, as it is at first
// and after an outage. A standing queue raises recent, whereas jitter does not.
func (c *Conn) RecentRTT() (recent, least time.Duration, rounds int) {
	return c.congestion.Recent, c.congestion.MinEver, c.congestion.Rounds
}
