package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Stats is a snapshot of one connection. Counters only grow.
type Stats struct {
	// MinRTT is the least of about the last 10 s, but at most SmoothedRTT.
	LatestRTT, SmoothedRTT, MinRTT, RTTVar time.Duration

	PacketsSent, PacketsReceived uint64
	BytesSent, BytesReceived     uint64
	BunchesSent, BunchesReceived uint64
	BunchesResent                uint64
	PayloadSent                  uint64 // how many of BytesSent are payload; payload that is sent again counts again
	PacketsOutOfOrder            uint64 // received after a packet that was sent later
	// Calls of Cork(true), and those at which play of an earlier tick was still unsent.
	Ticks, TicksSaturated uint64
	PacketsLost           uint64 // sent and declared lost; some may have arrived late
	PacketsMissing        uint64 // numbers of the peer that did not arrive; the peer left some of them out
	SpuriousLosses        uint64 // declared lost and acked later
	// Repair bunches, included in BunchesSent; entries restored from the peer's repair bunches.
	RepairsSent, EntriesRestored uint64
	AcksOnlySent, ProbesSent     uint64

	InFlight     int // bytes
	Window       int // bytes in flight that bulk may have
	DeliveryRate int // bytes a second
	Queued       int // bytes that wait here and were never sent

	// Drops by reason.
	DroppedDuplicate     uint64 // packets and bunches that arrived twice
	DroppedClosedChannel uint64 // unreliable and tracked bunches for a closed channel
	// Repair bunches that were not needed (their entries or they themselves had
	// arrived), or too many.
	DroppedRepairs    uint64
	DroppedBeforeOpen uint64 // unreliable and tracked messages for channels that are not open yet
	// UnreliableSequenced messages that a newer one has overtaken, and parts
	// 512 packets behind their message.
	DroppedLate uint64
	// DroppedUnreliable counts unreliable messages that were too many (at either
	// end 256 KiB may wait, including 64 bytes for each message), or that waited
	// for longer than 200 ms and a round trip, or through an outage.
	DroppedUnreliable uint64
	// Tracked messages that were too many (as above) or, at the sender, stale
	// after an outage or closed with their channel.
	DroppedTracked  uint64
	DroppedAssembly uint64 // unreliable messages in parts that never became complete
}

// dropClosed counts a bunch for a channel that its sender has closed. Everything reliable
// arrived before the close, so a reliable bunch is a duplicate: on a path that loses packets,
// most small closes are sent twice. An unreliable bunch may arrive for the first time.
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
	s.LatestRTT, s.SmoothedRTT, s.RTTVar = c.gate.Latest, c.gate.Smoothed, c.gate.Variance
	// A new Min begins with few samples, and the first includes its ack delay
	// (RFC 9002, section 5.2). The mean never does (section 5.3).
	s.MinRTT = min(c.gate.Min, c.gate.Smoothed)
	s.PacketsMissing = c.received.missing
	s.DroppedAssembly = c.assemblies.evicted
	s.BunchesSent += c.repairs.sent
	s.RepairsSent, s.EntriesRestored = c.repairs.sent, c.restorer.restored
	s.DroppedRepairs += c.restorer.dropped
	s.InFlight = c.sent.inFlight
	s.Window, s.DeliveryRate = c.gate.Window(fullDatagram), recovery.Bytes(c.gate.Rate(), time.Second)
	if c.path.Fates {
		s.Window, s.DeliveryRate = c.path.Window, recovery.Bytes(c.path.Rate, time.Second)
	}
	s.Queued = c.Queued()
	return s
}

// Lost returns how many packets have been declared lost.
func (c *Conn) Lost() uint64 { return c.stats.PacketsLost }

// Acked returns one more than the number of the newest packet that the peer has acknowledged.
func (c *Conn) Acked() uint64 { return c.loss.Largest }

// InFlight returns how many bytes are in flight: in packets that are neither acknowledged nor lost.
func (c *Conn) InFlight() int { return c.sent.inFlight }

// SetWindow sets how many bytes in flight the path takes: its congestion window
// and a few packets; 0 = unknown.
func (c *Conn) SetWindow(bytes int) { c.gate.PathWindow = bytes }

// RecentRTT returns the least of the latest round trips, at least 8 of them;
// the least ever; and how often recent was measured, 0 while it is unknown. A
// standing queue raises recent; jitter does not.
func (c *Conn) RecentRTT() (recent, least time.Duration, rounds int) {
	return c.gate.Recent, c.gate.Least, c.gate.Rounds
}

// An Event is one step of a trace, in the order in which the machine makes
// them. Kind says which other fields are set:
//
//	queued    a message of Bytes is queued on Channel; if reliable, Sequence is the last entry that holds some of it
//	bunch     part of a message, Bytes, is in the packet that is being built; Again: an earlier packet had it, too. Sequence is its
//	          entry if reliable, and otherwise how many parts of it are still to be sent
//	sent      the packet Number is sent, with Bytes; Asks: an ack will report its fate
//	unsent    the packet Number, the last one, was not sent, nor were its bunches
//	acked     the packet Number was received; Again: it had been declared lost
//	lost      the packet Number is declared lost
//	freed     the entries of Channel below Sequence are acknowledged
//	dropped   the oldest queued unreliable message of Channel is dropped
//	received  the packet Number was received, with Bytes
//	ready     a message of Channel waits for Take; the packet Number has completed it
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

// traced reports whether there is a Trace. It is called before an Event is
// made, because that costs a tenth of handling a message.
func (c *Conn) traced() bool { return c.config.Trace != nil }

// trace passes an event to Trace, with the current time.
func (c *Conn) trace(ev Event) {
	ev.At = c.now
	c.config.Trace(ev)
}
