package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Stats is a snapshot of one connection. Counters only grow.
type Stats struct {
	// MinRTT is the minimum of about the last 10 s, but at most SmoothedRTT.
	LatestRTT, SmoothedRTT, MinRTT, RTTVar time.Duration

	PacketsSent, PacketsReceived uint64
	BytesSent, BytesReceived     uint64
	BunchesSent, BunchesReceived uint64
	BunchesResent                uint64
	PayloadSent                  uint64 // part of BytesSent that is payload; resent payload counts again
	PacketsOutOfOrder            uint64 // received after a packet that was sent later
	// Calls of Cork(true), and those at which play of an earlier tick was still unsent.
	Ticks, TicksSaturated uint64
	PacketsLost           uint64 // sent and declared lost; some may have arrived late
	PacketsMissing        uint64 // the peer's numbers that did not arrive; it left some of them out
	SpuriousLosses        uint64 // declared lost and acked later
	// Repair bunches sent, included in BunchesSent, and entries restored from the peer's
	// repair bunches.
	RepairsSent, EntriesRestored uint64
	AcksOnlySent, ProbesSent     uint64

	InFlight     int // bytes
	Window       int // bytes in flight that bulk may have
	DeliveryRate int // bytes per second
	Queued       int // bytes waiting here that were never sent

	// Drops by reason.
	DroppedDuplicate     uint64 // packets and bunches that arrived twice
	DroppedClosedChannel uint64 // unreliable and tracked bunches for a closed channel
	// Repair bunches that were too many or were not needed, because they or their entries
	// had already arrived.
	DroppedRepairs    uint64
	DroppedBeforeOpen uint64 // unreliable and tracked messages for channels not open yet
	// UnreliableSequenced messages overtaken by a newer one, and parts sent more than 512
	// packets before the newest part with their message number.
	DroppedLate uint64
	// Unreliable messages that waited for longer than 200 ms and a round trip, waited
	// through an outage, or were too many. At either end 256 KiB may wait, including 64
	// bytes for each message.
	DroppedUnreliable uint64
	// Tracked messages that were too many (as above) or, at the sender, stale after an
	// outage or closed with their channel.
	DroppedTracked  uint64
	DroppedAssembly uint64 // unreliable messages in parts that never became complete
}

// dropClosed counts a bunch for a channel that its sender has closed.
//
// Everything reliable arrived before the close, so a reliable bunch is a duplicate. On a
// path that loses packets, most small closes are sent twice. An unreliable bunch may be
// arriving for the first time.
func (s *Stats) dropClosed(h header) {
	switch {
	case h.repairs():
		s.DroppedRepairs++
	case h.reliable():
		s.DroppedDuplicate++
	default:
		s.DroppedClosedChannel++
	}
}

// Stats returns the counters and the current state.
func (c *Conn) Stats() Stats {
	s := c.stats
	s.LatestRTT = c.gate.Latest
	s.SmoothedRTT = c.gate.Smoothed
	s.RTTVar = c.gate.Variance
	// A new Min begins with few samples, and the first one includes its ack delay (RFC
	// 9002, section 5.2). The smoothed round trip never does (section 5.3).
	s.MinRTT = min(c.gate.Min, c.gate.Smoothed)
	s.PacketsMissing = c.received.missing
	s.DroppedAssembly = c.assemblies.evicted
	s.BunchesSent += c.repairs.sent
	s.RepairsSent = c.repairs.sent
	s.EntriesRestored = c.restorer.restored
	s.DroppedRepairs += c.restorer.dropped
	s.InFlight = c.sent.inFlight
	s.Window = c.gate.Window(fullDatagram)
	s.DeliveryRate = recovery.Bytes(c.gate.Rate(), time.Second)
	if c.path.Fates {
		s.Window = c.path.Window
		s.DeliveryRate = recovery.Bytes(c.path.Rate, time.Second)
	}
	s.Queued = c.Queued()
	return s
}

// Lost returns the number of packets declared lost.
func (c *Conn) Lost() uint64 { return c.stats.PacketsLost }

// Acked returns one more than the number of the newest packet that the peer has
// acknowledged.
func (c *Conn) Acked() uint64 { return c.loss.Largest }

// InFlight returns the number of bytes in packets that are neither acknowledged nor lost.
func (c *Conn) InFlight() int { return c.sent.inFlight }

// SetWindow sets the number of bytes in flight that the path takes: its congestion window
// and a few packets. 0 means unknown.
func (c *Conn) SetWindow(bytes int) { c.gate.PathWindow = bytes }

// RecentRTT returns the minimum of at least the latest 8 round trips, the minimum of all
// round trips, and the number of times that recent was measured. rounds is 0 while recent
// is unknown. A standing queue raises recent; jitter does not.
func (c *Conn) RecentRTT() (recent, least time.Duration, rounds int) {
	return c.gate.Recent, c.gate.MinEver, c.gate.Rounds
}

// An Event is one step of a trace. Events are traced in the order of the steps. Kind says
// which other fields are set:
//
//	queued    a message of Bytes is queued on Channel; if reliable, Sequence is the last entry that holds some of it
//	bunch     a part of a message, of Bytes, is in the packet that is being built; Again: an earlier packet had it as well. Sequence is
//	          its entry if reliable, and otherwise the number of its parts still to be sent
//	sent      the packet Number, of Bytes, is sent; Asks: an ack will report its fate
//	unsent    the packet Number, the last one, was not sent, nor were its bunches
//	acked     the packet Number was received; Again: it had been declared lost
//	lost      the packet Number is declared lost
//	freed     the entries of Channel below Sequence are acknowledged
//	dropped   the oldest queued unreliable message of Channel is dropped
//	received  the packet Number, of Bytes, was received
//	ready     a message of Channel waits for Take; the packet Number completed it
type Event struct {
	At       time.Duration // since the connection began
	Kind     string
	Number   uint64
	Bytes    int
	Channel  uint64
	Sequence uint64   // of an entry of Channel's reliable buffer, counted from 0
	Delivery Delivery // of a message
	Again    bool
	Asks     bool
}

// traced reports whether there is a Trace. Callers check it before they make an Event,
// because making one costs a tenth of handling a message.
func (c *Conn) traced() bool { return c.config.Trace != nil }

// trace passes an event to Trace with the current time.
func (c *Conn) trace(ev Event) {
	ev.At = c.now
	c.config.Trace(ev)
}
