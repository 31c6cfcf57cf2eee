package rpc

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Stats is a snapshot of one connection. UE: stat net.
type Stats struct {
	// Round trips.
	RTT, SmoothedRTT, MinRTT time.Duration
	Jitter                   time.Duration // mean deviation of the round trip time

	// Shares of packets, 0 to 1, since the start. About 0.002 of LossIn are numbers that the peer leaves out, which nobody
	// can tell from lost ones.
	LossIn, LossOut float64
	// Bytes a second between the last two calls of Stats that were at least a second apart, else since the start.
	RateIn, RateOut float64

	PacketsIn, PacketsOut             uint64
	PacketsLost, PacketsMissing       uint64 // sent and lost; never seen, though later ones were
	BytesIn, BytesOut                 uint64
	BunchesIn, BunchesOut             uint64
	BunchesResent                     uint64
	SpuriousLosses, Probes, AcksAlone uint64

	InFlight     int // bytes that are not yet acknowledged
	Window       int // bytes that bulk may have in flight
	Queued       int // bytes that are not yet in a packet
	DeliveryRate int // bytes a second that arrive at the peer
	MaxDatagram  int // bytes that the path takes now
	ReceiveLimit int // bytes of reliable messages that may wait here

	// Deferred counts the Dispatches that left messages of this connection to the next one: see Config.DispatchTime.
	Deferred uint64

	// Sealed is about the sealed carrier, see [Config].Sealed.
	Sealed SealedStats

	Channels []ChannelStats // those with something out, by number
	Drops    Drops
}

// ChannelStats is what one channel has out.
type ChannelStats struct {
	Channel    uint64
	Class      string // empty for the control channel
	Out, Slots int    // entries of the reliable buffer
	QueueTime  time.Duration
}

// Drops counts what did not arrive at a handler, by reason: what the peer sent, and what was not sent to it.
type Drops struct {
	// Calls.
	NotOwner, RateLimited, Unbound, ActorClosed, Invalid uint64
	// Ended counts messages that had not run a second after the end of their connection, or when this side closed it.
	Ended uint64
	// Saturated counts unreliable calls made here that did not leave: see Config.QueueUnreliable.
	Saturated uint64
	// Gone counts Client RPCs and Multicasts made here when the connection was closing or had ended, and OnDisconnect had not run.
	Gone uint64
	// UnknownRefs counts references in arguments of the peer's that name no actor which is open for both; they name none then.
	UnknownRefs uint64
	// State counts updates of states that found no memory at a client, which then asks for everything anew, or waited too long.
	State uint64
	// Bunches.
	Duplicate, ClosedChannel, Unreliable, Late, BeforeOpen, Assembly uint64
	// Datagrams.
	RingFull, UnknownMachine, BeforeJoin uint64
}

// Stats returns a snapshot.
func (c *Conn) Stats() Stats {
	channels := c.channelNames()
	c.link.Lock()
	now := time.Now()
	m := c.machine.Stats()
	out := make([]ChannelStats, 0, len(channels))
	for _, ch := range channels {
		if ch.Out, ch.Slots = c.machine.Reliable(ch.Channel); ch.Out > 0 {
			ch.QueueTime = c.machine.QueueTime(ch.Channel)
			out = append(out, ch)
		}
	}
	c.link.Unlock()

	s := Stats{
		RTT: m.LatestRTT, SmoothedRTT: m.SmoothedRTT, MinRTT: m.MinRTT, Jitter: m.RTTVar,
		PacketsIn: m.PacketsReceived, PacketsOut: m.PacketsSent, PacketsLost: m.PacketsLost, PacketsMissing: m.PacketsMissing,
		BytesIn: m.BytesReceived, BytesOut: m.BytesSent, BunchesIn: m.BunchesReceived, BunchesOut: m.BunchesSent,
		BunchesResent: m.BunchesResent, SpuriousLosses: m.SpuriousLosses, Probes: m.ProbesSent, AcksAlone: m.AcksOnlySent,
		InFlight: m.InFlight, Window: m.Window, Queued: m.Queued, DeliveryRate: m.DeliveryRate,
		LossIn: share(m.PacketsMissing, m.PacketsMissing+m.PacketsReceived), LossOut: share(m.PacketsLost, m.PacketsSent),
		Channels: out,
		Drops: Drops{
			Duplicate: m.DroppedDuplicate, ClosedChannel: m.DroppedClosedChannel, Unreliable: m.DroppedUnreliable, State: m.DroppedTracked, Late: m.DroppedLate,
			BeforeOpen: m.DroppedBeforeOpen, Assembly: m.DroppedAssembly,
		},
	}
	s.RateIn, s.RateOut = c.sample.rates(now, m.BytesReceived, m.BytesSent)
	c.addCounts(&s)
	return s
}

// addCounts adds what stands outside the machine.
func (c *Conn) addCounts(s *Stats) {
	l := c.link.Stats()
	s.MaxDatagram = l.MaxDatagram
	s.Sealed.State = "off"
	if c.sealed != nil && c.sealed.agreed.Load() {
		s.Sealed = c.sealed.Stats()
	}
	s.Drops.RingFull, s.Drops.UnknownMachine = l.DroppedRing, l.DroppedUnknown
	s.Drops.BeforeJoin = c.uninvited.Load()
	s.Drops.NotOwner = c.drops[dropNotOwner].Load()
	s.Drops.RateLimited = c.drops[dropRateLimited].Load()
	s.Drops.Unbound = c.drops[dropUnbound].Load()
	s.Drops.ActorClosed = c.drops[dropClosed].Load()
	s.Drops.Invalid = c.drops[dropInvalid].Load()
	s.Drops.Ended = c.drops[dropEnded].Load()
	s.Deferred = c.deferred.Load()
	s.Drops.Saturated = c.drops[dropSaturated].Load()
	s.Drops.Gone = c.drops[dropGone].Load()
	s.Drops.UnknownRefs = c.drops[dropUnknownRef].Load()
	s.ReceiveLimit = int(c.reserved.Load())
}

// channelNames returns the channels that exist now, by number.
func (c *Conn) channelNames() []ChannelStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]ChannelStats, 1, len(c.channels)+1)
	for _, channel := range slices.Sorted(maps.Keys(c.channels)) {
		names = append(names, ChannelStats{Channel: channel, Class: c.channels[channel].class.name})
	}
	return names
}

func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// sampleTime is the shortest time over which a rate is taken.
const sampleTime = time.Second

// sampler makes rates of counters.
type sampler struct {
	mu              sync.Mutex
	at              time.Time
	in, out         uint64
	rateIn, rateOut float64
	sampled         bool
}

// rates returns bytes a second over the last whole sample; before the first one, since the start.
func (s *sampler) rates(now time.Time, in, out uint64) (rateIn, rateOut float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	elapsed := now.Sub(s.at)
	if elapsed <= 0 || s.sampled && elapsed < sampleTime {
		return s.rateIn, s.rateOut
	}
	rateIn, rateOut = float64(in-s.in)/elapsed.Seconds(), float64(out-s.out)/elapsed.Seconds()
	if elapsed >= sampleTime {
		s.at, s.in, s.out, s.sampled = now, in, out, true
		s.rateIn, s.rateOut = rateIn, rateOut
	}
	return rateIn, rateOut
}
