package rpc

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/drops"
	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/statnet"
	"github.com/quivernet/quiver/rpc/dos"
)

// Stats is a snapshot of the counters of one connection. [Stats.String] formats it like
// Unreal's stat net does, and [World.StatNet] does the same for a whole world.
//
// Packets, bunches, bytes and their rates count what actors send, without the overhead of
// QUIC or of sealed packets. That includes transfers of package stream if they go out as
// bunches (by Window, the default).
//
// Otherwise a transfer is sent in slices, which are counted separately. Losses of slices, and
// everything that a sealed carrier puts on the wire, are in Sealed.
type Stats struct {
	// Round trip times. UE: Ping.
	RTT         time.Duration // newest sample, including the peer's ack delay
	SmoothedRTT time.Duration // mean, without the peer's ack delay
	MinRTT      time.Duration // minimum over about 10 s, but never above the mean
	Jitter      time.Duration // mean deviation

	// Share of packets lost since the connection began, from 0 to 1.
	//
	// The two ends of a direction don't count the same packets. A sender only learns the fate
	// of packets that ask for an ack, and so not of those that carry nothing but acks. A
	// receiver counts the gaps in packet numbers, but can't tell a lost packet from the 0.2 %
	// of numbers that the peer skips on purpose.
	LossIn, LossOut float64

	// Rates per second, measured over the last second or since the last Flush or call of Stats,
	// whichever is longer. During a connection's first second they're measured since its start.
	// UE: In and Out Rate, Packets and Bunches.
	RateIn, RateOut             float64 // bytes
	PacketRateIn, PacketRateOut float64
	BunchRateIn, BunchRateOut   float64
	SliceRateIn, SliceRateOut   float64 // bytes

	// OutSaturation is the share of ticks in that time, from 0 to 1, that began while calls or
	// states from an earlier tick were still waiting for the path or for Config.Rate. Bulk (see
	// Config.Rate) doesn't count, since it only gets what the others leave. UE: Out Saturation.
	OutSaturation float64

	// Totals since the connection began.
	PacketsIn, PacketsOut uint64
	PacketsLost           uint64 // packets that we sent and that were lost
	PacketsMissing        uint64 // packets that haven't arrived although later ones have
	PacketsOutOfOrder     uint64 // packets that arrived after a later one
	BytesIn, BytesOut     uint64
	PayloadOut            uint64 // BytesOut without headers, acks or repairs, but with resends
	BunchesIn, BunchesOut uint64
	SliceBytesIn          uint64 // slices and their acks, including resends
	SliceBytesOut         uint64 // slices and their acks, including resends
	BunchesResent         uint64
	RepairsOut            uint64 // repair bunches (parity of a transfer by Window) sent
	EntriesRestored       uint64 // entries recovered from the peer's repair bunches
	SpuriousLosses        uint64 // packets in PacketsLost and LossOut that did arrive
	Probes                uint64 // packets sent because acks failed to come
	AcksAlone             uint64 // packets sent with nothing but acks

	// The path, and the data in flight or waiting for it.
	InFlight     int // bytes sent but not yet acknowledged
	Window       int // limit on the bytes that bulk may have in flight
	Queued       int // bytes waiting to be sent
	Unacked      int // memory of reliable messages not yet acknowledged: see Config.SendLimit
	DeliveryRate int // bytes per second that the path can deliver; may be more than RateOut
	MaxDatagram  int // current size limit of QUIC's datagrams; see Sealed for sealed packets
	ReceiveLimit int // limit on the bytes of received reliable messages that may be waiting

	// Deferred counts the Dispatches that ran out of time for this connection and left some
	// of its messages for the next one. See Config.DispatchTime.
	Deferred uint64

	// ServerTime describes [Conn.ServerTime] on a client. Steps counts how often it jumped
	// because the server's clock was set or our own stood still. Refused counts impossible
	// answers from the server.
	ServerTime struct{ Steps, Refused uint64 }

	// Sealed describes the sealed carrier. See [Config].Sealed.
	Sealed SealedStats

	// Severity and Methods are only set on a server with Config.DoS. Severity is the name of
	// the profile's state that the peer's identity is in, and Methods lists the methods that the
	// peer has called, by name. For the sums over all clients, see [World.MethodStats].
	//
	// Messages that aren't calls are never blocked, and are listed under a name in
	// parentheses:
	//
	//   - "(control)" are messages that belong to no actor: those of SendMessage and ServerTime.
	//   - "(closed channel)" are calls that arrived after their actor was closed for the peer.
	//   - "(answer)" are answers to our own closes and messages, which have no quota.
	//   - "(other)" are messages for an actor that name none of its methods.
	Severity string
	Methods  []dos.Count

	// ChannelsOpen counts all open channels: the control channel, those of actors, and those
	// of package stream, which has a control channel of its own and a channel for each lane
	// of bulk.
	ChannelsOpen int
	ActorsOpen   int            // those of ChannelsOpen that belong to the game's actors
	Channels     []ChannelStats // channels with unacknowledged reliable entries, by number
	Drops        Drops
}

// ChannelStats describes a channel with reliable entries that the peer hasn't acknowledged.
type ChannelStats struct {
	Channel    uint64
	Class      string // "" for the control channel
	Out, Slots int    // entries of the reliable buffer: in use, and in total
	QueueTime  time.Duration
	Gate       string // see [Channel.Gate]
}

// Drops counts the messages, to and from the peer, that were dropped, by reason.
//
// A reliable call may be dropped even though Call returned no error and the connection stays
// open. The end that should have run it then counts it in NotOwner, RateLimited, Unbound,
// ActorClosed, Invalid or Blocked. If the connection ends, Ended counts the messages that had
// already arrived, and Gone those that the server sent too late. All other counters are about
// unreliable messages, updates, requests and duplicates.
type Drops struct {
	// These count calls from the peer. On a server, NotOwner, ActorClosed and UnknownRefs don't
	// mean that the peer is cheating, because a client may call an actor before it learns that
	// the actor has ended or has a new owner.
	//
	// ActorClosed also includes calls made here: calls of [ForceQueue] methods that were still
	// queued when their actor closed, and reliable Multicasts that a previous owner missed because
	// its copy was about to close, although it then stayed open. See [World.SetOwner].
	NotOwner, RateLimited, Unbound, ActorClosed, Invalid uint64

	// Blocked counts calls from the peer that were blocked by Config.DoS.
	Blocked uint64

	// Ended counts messages that were dropped because their connection ended. If this end closed
	// the connection, they are dropped at once. Otherwise, they have another second to run.
	Ended uint64

	// Saturated counts unreliable calls made here that weren't sent because the connection
	// was saturated. See Config.QueueUnreliable.
	Saturated uint64

	// Throttled counts unreliable Multicasts made here beyond Config.MaxRPCPerNetUpdate.
	Throttled uint64

	// Gone counts Client RPCs and Multicasts made here between the moment when the connection
	// began to close and OnDisconnect. It may be the client's own fault, if it broke a rule.
	Gone uint64

	// UnknownRefs counts references, in arguments from the peer, to actors that aren't open
	// on the connection. The handler sees them as 0.
	UnknownRefs uint64

	// Requests counts requests from the peer beyond Config.MaxRequests.
	//
	// Answers counts answers that nobody was waiting for. Answers from the peer were late, sent
	// twice, or never requested. Answers of this end were for a request that had already been
	// answered or canceled.
	Requests, Answers uint64

	// Messages counts messages that the peer sent with [Conn.SendMessage] while
	// Config.OnMessage was nil.
	Messages uint64

	// State counts updates of states. A client drops updates if too many are waiting, and
	// then asks the server to send everything again. A server doesn't send an update if too
	// many are waiting, if an outage made it stale, or if its channel has closed.
	State uint64

	// Duplicate counts packets and bunches that arrived twice. That is harmless, and expected on
	// a lossy path, where we send small reliable calls, opens, closes and the end of a transfer
	// twice from the start. ClosedChannel counts unreliable calls and states for an actor that is
	// closed.
	//
	// Unreliable counts unreliable messages, to or from the peer, that waited too long or
	// exceeded the queue's limit. Late counts UnreliableSequenced messages that were overtaken by
	// a newer one. BeforeOpen counts unreliable messages that overtook the open of their actor.
	// Assembly counts unreliable messages of which a part was lost. Repairs counts repair bunches
	// that weren't needed.
	Duplicate, ClosedChannel, Unreliable, Late, BeforeOpen, Assembly, Repairs uint64

	// RingFull counts datagrams that arrived faster than this process handled them.
	// UnknownMachine counts datagrams that were empty or of an unknown kind. BeforeJoin
	// counts datagrams of package stream that arrived before the connection had joined.
	RingFull, UnknownMachine, BeforeJoin uint64
}

// Stats returns a snapshot of the connection's counters. It is safe for concurrent use.
func (c *Conn) Stats() Stats {
	channels, actors := c.channels.stats()
	c.link.Lock()
	now := time.Now()
	m := c.machine.Stats()
	l := c.link.Stats()
	out := make([]ChannelStats, 0, len(channels))
	for _, ch := range channels {
		ch.Out, ch.Slots = c.machine.Reliable(ch.Channel)
		if ch.Out > 0 {
			ch.QueueTime = c.machine.QueueTime(ch.Channel)
			ch.Gate = c.gate(ch.Channel)
			out = append(out, ch)
		}
	}
	c.link.Unlock()

	s := statsOf(&m, &l)
	s.Channels = out
	s.ChannelsOpen = len(channels)
	s.ActorsOpen = actors
	s.setRates(c.rates.Of(now, counters(&m, &l)))
	c.addCounts(&s, &l)
	return s
}

// statsOf fills in everything that comes from the bunch machine and from the link.
func statsOf(m *bunch.Stats, l *link.Stats) Stats {
	return Stats{
		RTT:               m.LatestRTT,
		SmoothedRTT:       m.SmoothedRTT,
		MinRTT:            m.MinRTT,
		Jitter:            m.RTTVar,
		LossIn:            share(m.PacketsMissing, m.PacketsMissing+m.PacketsReceived),
		LossOut:           share(m.PacketsLost, m.PacketsSent),
		PacketsIn:         m.PacketsReceived,
		PacketsOut:        m.PacketsSent,
		PacketsLost:       m.PacketsLost,
		PacketsMissing:    m.PacketsMissing,
		PacketsOutOfOrder: m.PacketsOutOfOrder,
		BytesIn:           m.BytesReceived,
		BytesOut:          m.BytesSent,
		PayloadOut:        m.PayloadSent,
		BunchesIn:         m.BunchesReceived,
		BunchesOut:        m.BunchesSent,
		SliceBytesIn:      l.OtherIn,
		SliceBytesOut:     l.OtherOut,
		BunchesResent:     m.BunchesResent,
		RepairsOut:        m.RepairsSent,
		EntriesRestored:   m.EntriesRestored,
		SpuriousLosses:    m.SpuriousLosses,
		Probes:            m.ProbesSent,
		AcksAlone:         m.AcksOnlySent,
		InFlight:          m.InFlight,
		Window:            m.Window,
		Queued:            m.Queued,
		Unacked:           m.Unacked,
		DeliveryRate:      m.DeliveryRate,
		Drops: Drops{
			State:         m.DroppedTracked,
			Duplicate:     m.DroppedDuplicate,
			ClosedChannel: m.DroppedClosedChannel,
			Unreliable:    m.DroppedUnreliable,
			Late:          m.DroppedLate,
			BeforeOpen:    m.DroppedBeforeOpen,
			Assembly:      m.DroppedAssembly,
			Repairs:       m.DroppedRepairs,
		},
	}
}

// gate is Channel.Gate for a caller that holds the link's lock.
func (c *Conn) gate(channel uint64) string { return c.machine.Gate(channel, c.link.Rated()) }

// addCounts fills in the counters that other parts of this package keep.
func (c *Conn) addCounts(s *Stats, l *link.Stats) {
	s.MaxDatagram = l.MaxDatagram
	s.Sealed.State = "off"
	if c.sealed.agreed() {
		s.Sealed = c.sealed.carriers.stats()
		s.Sealed.Carries = c.Sealed()
	}
	s.ServerTime.Steps = c.times.steps.Load()
	s.ServerTime.Refused = c.times.refused.Load()
	s.Severity, s.Methods = c.world.dos.stats(c)
	s.Deferred = c.deferred.Load()
	s.ReceiveLimit = int(c.reserved.Load())
	s.Drops.RingFull = l.DroppedRing
	s.Drops.UnknownMachine = l.DroppedUnknown
	s.Drops.BeforeJoin = c.extended.Uninvited.Load()
	s.Drops.count(&c.drops)
}

// count fills in the counters of calls and messages that package rpc itself drops, as opposed
// to the machine and the link.
func (d *Drops) count(c *drops.Counters) {
	d.NotOwner = c.Of(drops.NotOwner)
	d.RateLimited = c.Of(drops.RateLimited)
	d.Unbound = c.Of(drops.Unbound)
	d.ActorClosed = c.Of(drops.Closed)
	d.Invalid = c.Of(drops.Invalid)
	d.Blocked = c.Of(drops.Blocked)
	d.Ended = c.Of(drops.Ended)
	d.Saturated = c.Of(drops.Saturated)
	d.Throttled = c.Of(drops.Throttled)
	d.Gone = c.Of(drops.Gone)
	d.UnknownRefs = c.Of(drops.UnknownRef)
	d.Requests = c.Of(drops.Requests)
	d.Answers = c.Of(drops.Answer)
	d.Messages = c.Of(drops.Message)
}

// share returns part/whole, or 0 if there is nothing to divide by.
func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// counters returns the counters from which rates are computed.
func counters(m *bunch.Stats, l *link.Stats) statnet.Sample[uint64] {
	return statnet.Sample[uint64]{
		BytesIn:    m.BytesReceived,
		BytesOut:   m.BytesSent,
		PacketsIn:  m.PacketsReceived,
		PacketsOut: m.PacketsSent,
		BunchesIn:  m.BunchesReceived,
		BunchesOut: m.BunchesSent,
		SlicesIn:   l.OtherIn,
		SlicesOut:  l.OtherOut,
		Ticks:      m.Ticks,
		Saturated:  m.TicksSaturated,
	}
}

// setRates fills in the rates.
func (s *Stats) setRates(r statnet.Sample[float64]) {
	s.RateIn, s.RateOut = r.BytesIn, r.BytesOut
	s.PacketRateIn, s.PacketRateOut = r.PacketsIn, r.PacketsOut
	s.BunchRateIn, s.BunchRateOut = r.BunchesIn, r.BunchesOut
	s.SliceRateIn, s.SliceRateOut = r.SlicesIn, r.SlicesOut
	if r.Ticks > 0 {
		s.OutSaturation = r.Saturated / r.Ticks
	}
}

// sampleRates is called by Flush and samples every connection once a second. Without it, a game
// that seldom calls Stats would get rates averaged over the whole time between its calls. It
// also takes the samples for the trace, which has an interval of its own, and enforces
// Config.SendBudget.
func (w *World) sampleRates() {
	now := w.frame.beat.Real // the game's clock may stand still or jump
	for _, c := range w.announced {
		if c.trace.Due(now) {
			m := c.counts()
			c.trace.Sample(now, &m)
		}
	}
	if now.Sub(w.lastSample) < statnet.Window {
		return
	}
	w.lastSample = now
	unacked := 0
	for _, c := range w.announced {
		m := c.counts()
		l := c.link.Stats()
		c.rates.Of(now, counters(&m, &l))
		c.backlog.set(m.Unacked, m.Freed, now)
		unacked += m.Unacked
	}
	w.keepSendBudget(unacked, now)
}

// shownChannels is the number of channels that a table lists. They are the ones whose reliable
// buffers are fullest, because a full buffer closes the connection.
const shownChannels = 5

// String formats the counters as a table at most 100 columns wide. A carrier other than QUIC,
// such as rpctest's, is shown as QUIC with sealed off. UE: stat net, for one connection.
func (s Stats) String() string {
	var t statnet.Table
	t.List("Ping", statnet.Ms(s.RTT), statnet.Ms(s.SmoothedRTT)+" smoothed",
		statnet.Ms(s.MinRTT)+" minimum", statnet.Ms(s.Jitter)+" jitter")
	t.List("Carrier", s.Sealed.cells()...)
	t.Row("", "in", "out")
	t.Row("Rate", statnet.Rate(s.RateIn), statnet.Rate(s.RateOut))
	t.Row("Packets", statnet.Often(s.PacketRateIn), statnet.Often(s.PacketRateOut))
	t.Row("Bunches", statnet.Often(s.BunchRateIn), statnet.Often(s.BunchRateOut))
	t.Row("Slices", statnet.Rate(s.SliceRateIn), statnet.Rate(s.SliceRateOut))
	t.Row("Loss", statnet.Percent(s.LossIn), statnet.Percent(s.LossOut))
	t.Row("Saturation", "", statnet.Percent(s.OutSaturation))
	t.Row("Overhead", "", statnet.Percent(1-share(s.PayloadOut, max(1, s.BytesOut))))
	t.Row("Total", statnet.Bytes(float64(s.BytesIn)), statnet.Bytes(float64(s.BytesOut)))
	t.Row("  packets", statnet.Count(s.PacketsIn), statnet.Count(s.PacketsOut))
	t.Row("  bunches", statnet.Count(s.BunchesIn), statnet.Count(s.BunchesOut))
	t.Row("  slices", statnet.Bytes(float64(s.SliceBytesIn)), statnet.Bytes(float64(s.SliceBytesOut)))
	t.Row("  lost", statnet.Count(s.PacketsMissing), statnet.Count(s.PacketsLost))
	t.Row("  spurious", "", statnet.Count(s.SpuriousLosses))
	t.Row("  out of order", statnet.Count(s.PacketsOutOfOrder), "")
	t.Row("  resent", "", statnet.Count(s.BunchesResent))
	t.Row("  repair bunches", "", statnet.Count(s.RepairsOut))
	t.Row("  restored", statnet.Count(s.EntriesRestored), "")
	t.Row("  acks alone", "", statnet.Count(s.AcksAlone))
	t.List("Path", statnet.Bytes(float64(s.InFlight))+" in flight of a window of "+statnet.Bytes(float64(s.Window)),
		statnet.Bytes(float64(s.Queued))+" queued", statnet.Rate(float64(s.DeliveryRate))+" delivered",
		fmt.Sprintf("datagrams of %d B", s.MaxDatagram))
	t.List("Channels", fmt.Sprintf("%d open", s.ChannelsOpen), fmt.Sprintf("%d of actors", s.ActorsOpen),
		fmt.Sprintf("%d with reliable data in flight", len(s.Channels)))
	s.addChannels(&t)
	t.List("Drops", s.Drops.reasons()...)
	return t.String()
}

// addChannels adds a line for each of the channels with the fullest reliable buffers.
func (s *Stats) addChannels(t *statnet.Table) {
	channels := slices.Clone(s.Channels)
	// Compare a.Out/a.Slots with b.Out/b.Slots, but without dividing.
	slices.SortStableFunc(channels, func(a, b ChannelStats) int {
		return cmp.Compare(b.Out*max(1, a.Slots), a.Out*max(1, b.Slots))
	})
	for _, ch := range channels[:min(len(channels), shownChannels)] {
		t.List("", ch.String())
	}
}

// String describes the channel in one line.
func (ch ChannelStats) String() string {
	text := fmt.Sprintf("%d %s: %d of %d entries, %s queued",
		ch.Channel, cmp.Or(ch.Class, "control"), ch.Out, ch.Slots, statnet.Ms(ch.QueueTime))
	if ch.Gate != "" {
		text += ", held by " + ch.Gate
	}
	return text
}

// String lists the nonzero counters, as in "NotOwner 2, Late 17". If there are none, it returns
// "none".
func (d Drops) String() string { return strings.Join(d.reasons(), ", ") }

// reasons lists the nonzero counters by name. If there are none, it returns "none".
func (d Drops) reasons() (reasons []string) {
	v := reflect.ValueOf(d)
	for i := range v.NumField() {
		if n := v.Field(i).Uint(); n > 0 {
			reasons = append(reasons, v.Type().Field(i).Name+" "+statnet.Count(n))
		}
	}
	if reasons == nil {
		return []string{"none"}
	}
	return reasons
}

// saturatedShare is the OutSaturation from which StatNet calls a connection saturated. It's
// high because a few ticks are saturated whenever many actors open at once, which is harmless.
const saturatedShare = 0.5

// StatNet describes the world, with a line for each connection that has joined, in a table at
// most 100 columns wide. It calls a connection saturated if its OutSaturation is at least one
// half. For all numbers of a single connection, see [Conn.Stats]. UE: stat net.
//
// StatNet is meant for consoles. It takes about 2 µs per connection and 10 ns per actor, and
// must be called on the world's goroutine.
func (w *World) StatNet() string {
	var t statnet.Table
	conns := w.Conns()
	stats := make([]Stats, len(conns))
	saturated := 0
	for i, c := range conns {
		stats[i] = c.Stats()
		if stats[i].OutSaturation >= saturatedShare {
			saturated++
		}
	}
	t.List("World", w.role(), fmt.Sprintf("%d connected", len(conns)), fmt.Sprintf("%d saturated", saturated),
		fmt.Sprintf("%d closed by a full reliable buffer", w.overflows))
	w.addActors(&t)
	addSpans(&t, stats)
	addConns(&t, conns, stats)
	return t.String()
}

// addActors adds the row that counts the game's actors.
func (w *World) addActors(t *statnet.Table) {
	here, relevant, dormant := 0, 0, 0
	for a := range w.actors.all.all {
		if a.class.ofExtension() {
			continue // such as the actors of package stream
		}
		here++
		if len(a.openings) > 0 {
			relevant++
		}
		if a.Dormant() {
			dormant++
		}
	}
	// An actor's states are adjacent in this list, so count where the actor changes.
	considered := 0
	for i, c := range w.replicator.states {
		if i == 0 || c.actor != w.replicator.states[i-1].actor {
			considered++
		}
	}
	t.List("Actors", fmt.Sprintf("%d here", here), fmt.Sprintf("%d considered at each Flush", considered),
		fmt.Sprintf("%d relevant to a client", relevant), fmt.Sprintf("%d dormant", dormant))
}

// spans are the rows of StatNet's table that summarize a value over all connections.
var spans = []struct {
	label string
	value func(*Stats) float64
	text  func(float64) string
}{
	{"In rate", func(s *Stats) float64 { return s.RateIn }, statnet.Rate},
	{"Out rate", func(s *Stats) float64 { return s.RateOut }, statnet.Rate},
	{"In packets", func(s *Stats) float64 { return s.PacketRateIn }, statnet.Often},
	{"Out packets", func(s *Stats) float64 { return s.PacketRateOut }, statnet.Often},
	{"In bunches", func(s *Stats) float64 { return s.BunchRateIn }, statnet.Often},
	{"Out bunches", func(s *Stats) float64 { return s.BunchRateOut }, statnet.Often},
	{"In slices", func(s *Stats) float64 { return s.SliceRateIn }, statnet.Rate},
	{"Out slices", func(s *Stats) float64 { return s.SliceRateOut }, statnet.Rate},
	{"In loss", func(s *Stats) float64 { return s.LossIn }, statnet.Percent},
	{"Out loss", func(s *Stats) float64 { return s.LossOut }, statnet.Percent},
	{"Saturation", func(s *Stats) float64 { return s.OutSaturation }, statnet.Percent},
	{
		"Ping",
		func(s *Stats) float64 { return float64(s.SmoothedRTT) },
		func(v float64) string { return statnet.Ms(time.Duration(v)) },
	},
	{
		"Channels",
		func(s *Stats) float64 { return float64(s.ChannelsOpen) },
		func(v float64) string { return fmt.Sprintf("%.0f", v) },
	},
}

// addSpans adds the minimum, mean and maximum over all connections, for each of spans.
func addSpans(t *statnet.Table, stats []Stats) {
	if len(stats) == 0 {
		return
	}
	t.Row("Per connection", "min", "avg", "max")
	for _, row := range spans {
		lowest := row.value(&stats[0])
		highest := lowest
		sum := 0.0
		for i := range stats {
			v := row.value(&stats[i])
			lowest = min(lowest, v)
			highest = max(highest, v)
			sum += v
		}
		mean := sum / float64(len(stats))
		t.Row("  "+row.label, row.text(lowest), row.text(mean), row.text(highest))
	}
}

// connColumns are the columns of addConns.
var connColumns = []statnet.Column{
	{Width: 28, Left: true}, {Width: 9}, {Width: 12}, {Width: 12}, {Width: 13}, {Width: 9}, {Width: 9}, {Width: 8},
}

// addConns adds a row for each connection.
func addConns(t *statnet.Table, conns []*Conn, stats []Stats) {
	if len(conns) == 0 {
		return
	}
	t.Columns(connColumns, "Connection", "ping", "in", "out", "loss in/out", "satur.", "fullest", "by")
	for i, c := range conns {
		s := &stats[i]
		out, slots := fullestBuffer(s.Channels)
		by := "QUIC"
		if s.Sealed.Carries {
			by = "sealed"
		}
		t.Columns(connColumns, c.String(), statnet.Ms(s.SmoothedRTT), statnet.Rate(s.RateIn), statnet.Rate(s.RateOut),
			fmt.Sprintf("%.1f/%.1f %%", 100*s.LossIn, 100*s.LossOut), statnet.Percent(s.OutSaturation),
			fmt.Sprintf("%d/%d", out, slots), by)
	}
}

// fullestBuffer returns how many entries are used, and how many there are, in whichever
// reliable buffer is fullest.
func fullestBuffer(channels []ChannelStats) (out, slots int) {
	for _, ch := range channels {
		if out*ch.Slots <= ch.Out*slots {
			out, slots = ch.Out, ch.Slots
		}
	}
	return out, slots
}
