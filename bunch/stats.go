package bunch

import (
	"time"

	"github.com/quivernet/quiver/internal/recovery"
)

// Stats is a snapshot of one connection. Counters only grow.
type Stats struct {
	LatestRTT, SmoothedRTT, MinRTT, RTTVar time.Duration // MinRTT is the least of about the last 10 s, at most SmoothedRTT

	PacketsSent, PacketsReceived uint64
	BytesSent, BytesReceived     uint64
	BunchesSent, BunchesReceived uint64
	BunchesResent                uint64
	PayloadSent                  uint64 // bytes of BytesSent that are payload; one that is sent again counts again
	PacketsOutOfOrder            uint64 // received after one that was sent later
	Ticks, TicksSaturated        uint64 // calls of Cork(true), and those at which play of an earlier tick had not left
	PacketsLost                  uint64 // sent and declared lost; some may have arrived late
	PacketsMissing               uint64 // numbers of the peer's that did not come; it left some of them out
	SpuriousLosses               uint64 // declared lost, acked later
	RepairsSent, EntriesRestored uint64 // repair bunches, of BunchesSent; entries that those of the peer restored
	AcksOnlySent, ProbesSent     uint64

	InFlight     int // bytes
	Window       int // bytes in flight that bulk may have
	DeliveryRate int // bytes a second
	Queued       int // bytes never sent that wait here

	// Drops by reason.
	DroppedDuplicate     uint64 // packets and bunches that came twice
	DroppedClosedChannel uint64 // unreliable and tracked bunches for a channel that is closed
	DroppedRepairs       uint64 // repair bunches that were not needed, because all of their entries or they themselves had come, or too many to keep
	DroppedBeforeOpen    uint64 // unreliable and tracked messages for channels that are not open yet
	DroppedLate          uint64 // UnreliableSequenced messages that a newer one overtook, and parts 512 packets behind their message
	DroppedUnreliable    uint64 // unreliable messages that were too many (256 KiB may wait on either side, each with 64 bytes besides its own), that waited for longer than 200 ms and a round trip, or through an outage
	DroppedTracked       uint64 // tracked messages that were too many (as above), or here stale after an outage or closed with their channel
	DroppedAssembly      uint64 // unreliable messages in parts that never became whole
}

// dropClosed counts a bunch for a channel that its sender has closed. All that was reliable came before the close, so it comes once more now: on
// a path that loses packets most small closes do. What is unreliable may come for the first time.
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

// Stats returns the counters and the present state.
func (c *Conn) Stats() Stats {
	s := c.stats
	s.LatestRTT, s.SmoothedRTT, s.RTTVar = c.gate.Latest, c.gate.Smoothed, c.gate.Variance
	// A new Min begins with a few samples, the first with its ack delay (RFC 9002, section 5.2); no mean has that (section 5.3).
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

// Lost returns how many packets were declared lost so far.
func (c *Conn) Lost() uint64 { return c.stats.PacketsLost }

// Acked returns one above the newest packet that the peer acknowledged.
func (c *Conn) Acked() uint64 { return c.loss.Largest }

// InFlight returns how many bytes are on their way: in packets that are neither acknowledged nor lost.
func (c *Conn) InFlight() int { return c.sent.inFlight }

// SetWindow tells how many bytes in flight the path takes: its congestion window and a few packets, 0 when unknown.
func (c *Conn) SetWindow(bytes int) { c.gate.PathWindow = bytes }

// RecentRTT returns the least of the latest round trips, of which it takes at least 8; the least ever; and how often recent was
// found: 0 while it is not known. A standing queue raises recent; jitter does not.
func (c *Conn) RecentRTT() (recent, least time.Duration, rounds int) {
	return c.gate.Recent, c.gate.Least, c.gate.Rounds
}

// Event is one step of a trace, in the order in which the machine takes them. Kind says which other fields are set:
//
//	queued    a message of Bytes waits on Channel; when reliable, Sequence is the last entry that holds some of it
//	bunch     some of a message, Bytes, is in the packet that is being built; Again says that an earlier one held it. Sequence is its
//	          entry when reliable, and else how many parts of it are still to leave
//	sent      the packet Number leaves, with Bytes; Asks says that an ack will tell its fate
//	unsent    the packet Number, the last one, did not leave, nor did its bunches
//	acked     the packet Number was received; Again says that it counted as lost before
//	lost      the packet Number counts as lost
//	freed     the entries of Channel below Sequence are acknowledged
//	dropped   the oldest unreliable message of Channel that waits will not leave
//	received  the packet Number came, with Bytes
//	ready     a message of Channel waits for Take: the packet Number completed it
type Event struct {
	At       time.Duration // since the connection began
	Kind     string
	Number   uint64
	Bytes    int
	Channel  uint64
	Sequence uint64   // of an entry of Channel's reliable buffer, from 0 on
	Delivery Delivery // of a message
	Again    bool
	Asks     bool
}

// traced reports whether there is a Trace. Callers ask before they make an event: that costs a tenth of handling a message.
func (c *Conn) traced() bool { return c.config.Trace != nil }

// trace tells an event of now.
func (c *Conn) trace(ev Event) {
	ev.At = c.now
	c.config.Trace(ev)
}
