package rpc

import (
	"cmp"
	"fmt"
	"maps"
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

// Stats is a snapshot of the counters of one connection. [Stats.String] formats it as
// Unreal's stat net does. [World.StatNet] shows a whole world.
//
// Packets, bunches, bytes and their rates count what actors send, without the
// overhead of QUIC or sealed packets. They include the transfers of package stream
// that are sent as bunches (Window, the default).
//
// Slices are counted separately. Sealed has the losses of slices, and everything on the wire.
type Stats struct {
	// Round trip times. UE: Ping.
	RTT         time.Duration // newest sample, which includes the peer's ack delay
	SmoothedRTT time.Duration // mean, without that delay
	MinRTT      time.Duration // minimum of about the last 10 s, never above the mean
	Jitter      time.Duration // mean deviation

	// Shares of packets that were lost since the start of the connection, 0 to 1.
	//
	// The two ends of a direction count differently. The sender knows only what
	// happened to packets that ask for an ack, not to packets that carry nothing but
	// acks. The receiver counts missing numbers, and cannot tell a loss from the 0.2 %
	// of numbers that the peer skips on purpose.
	LossIn, LossOut float64

	// Rates per second, over the last second. If neither Flush nor Stats was called for
	// longer, they cover that time. Within the first second, they cover the time since the
	// start. UE: In and Out Rate, Packets and Bunches.
	RateIn, RateOut             float64 // bytes
	PacketRateIn, PacketRateOut float64
	BunchRateIn, BunchRateOut   float64
	SliceRateIn, SliceRateOut   float64 // bytes

	// OutSaturation is the share, 0 to 1, of the ticks in that time that began while calls or
	// states of an earlier tick still waited for the path or Config.Rate. Bulk uses only what
	// is left, and does not count. UE: Out Saturation.
	OutSaturation float64

	PacketsIn, PacketsOut uint64
	PacketsLost           uint64 // packets sent that were lost
	PacketsMissing        uint64 // packets not received, although later ones were
	PacketsOutOfOrder     uint64 // packets received after a later one
	BytesIn, BytesOut     uint64
	PayloadOut            uint64 // BytesOut without headers, acks and repair bunches; resends count again
	BunchesIn, BunchesOut uint64
	SliceBytesIn          uint64 // bytes of slices and their acks received; resends count again
	SliceBytesOut         uint64 // bytes of slices and their acks sent; resends count again
	BunchesResent         uint64
	RepairsOut            uint64 // repair bunches sent: the parity of a transfer by Window
	EntriesRestored       uint64 // entries restored from the peer's repair bunches
	SpuriousLosses        uint64 // packets counted in PacketsLost and LossOut that arrived later
	Probes, AcksAlone     uint64

	InFlight     int // bytes not yet acknowledged
	Window       int // bytes that bulk may have in flight
	Queued       int // bytes waiting to be sent
	DeliveryRate int // bytes per second that the path delivers when busy; above RateOut if little is sent
	MaxDatagram  int // maximum size of a datagram that QUIC sends now; for sealed packets see Sealed
	ReceiveLimit int // bytes of received reliable messages that may wait here

	// Deferred counts the Dispatches that left messages of this connection for the next
	// Dispatch: see Config.DispatchTime.
	Deferred uint64

	// ServerTime counts, on a client, how often [Conn.ServerTime] jumped because the server's
	// clock was set or this one stood still (Steps). It also counts answers of the server
	// that could not be true (Refused).
	ServerTime struct{ Steps, Refused uint64 }

	// Sealed is the state of the sealed carrier: see [Config].Sealed.
	Sealed SealedStats

	// On a server with Config.DoS: the state of the peer's identity, and the methods that the
	// peer has called, by name. [World.MethodStats] returns the sums over all clients.
	//
	// Messages that are not calls have names in parentheses, and are never blocked:
	//
	//   - "(control)" are those without an actor, of SendMessage and ServerTime.
	//   - "(closed channel)" are calls that arrived after their actor was closed for the peer.
	//   - "(answer)" are answers to closes and messages of this side, which have no quota.
	//   - "(other)" are messages for an actor that name none of its methods.
	Severity string
	Methods  []dos.Count

	// Open channels: the control channel, channels of actors, and those of package stream,
	// which are its control channel and its lanes.
	ChannelsOpen int
	ActorsOpen   int            // number of ChannelsOpen that are channels of the game's actors
	Channels     []ChannelStats // channels with unacknowledged reliable entries, by number
	Drops        Drops
}

// ChannelStats describes a channel that has unacknowledged reliable entries.
type ChannelStats struct {
	Channel    uint64
	Class      string // empty for the control channel
	Out, Slots int    // entries of the reliable buffer: used, and in total
	QueueTime  time.Duration
	Gate       string // see [Channel.Gate]
}

// Drops counts dropped messages from the peer and for the peer, by reason.
//
// A reliable call may be made without an error and not run although its connection
// continues. The end that should have run it counts it in NotOwner, RateLimited,
// Unbound, ActorClosed, Invalid or Blocked. When a connection ends, Ended counts what
// had arrived, and Gone what the server sent too late. The other counters are of
// unreliable messages, updates, requests and copies.
type Drops struct {
	// Calls from the peer. On a server, NotOwner, ActorClosed and UnknownRefs are
	// not a sign of cheating: the client may have sent a call before it learned
	// that the actor has another owner or has ended.
	//
	// ActorClosed also counts calls of [ForceQueue] methods that were made here and still
	// waited when their actor closed.
	NotOwner, RateLimited, Unbound, ActorClosed, Invalid uint64

	// Blocked counts calls from the peer that Config.DoS blocked.
	Blocked uint64

	// Ended counts messages that were dropped because their connection ended.
	// If this side closed the connection, they are dropped at once, otherwise
	// after a second in which they can still run.
	Ended uint64

	// Saturated counts unreliable calls made here that were not sent:
	// see Config.QueueUnreliable.
	Saturated uint64

	// Throttled counts unreliable Multicasts made here that exceeded Config.MaxRPCPerNetUpdate.
	Throttled uint64

	// Gone counts Client RPCs and Multicasts made here after the connection began to close
	// and before OnDisconnect ran. The client may have caused the close by breaking a rule.
	Gone uint64

	// UnknownRefs counts references in the peer's arguments to actors that are not open on
	// the connection. The handler gets 0 instead.
	UnknownRefs uint64

	// Requests counts requests from the peer that exceeded Config.MaxRequests.
	//
	// Answers counts answers for which nobody waited: answers from the peer that
	// arrived late, twice or without a request, and answers of this side to
	// requests that were canceled or already answered.
	Requests, Answers uint64

	// Messages counts messages of the peer's [Conn.SendMessage] that
	// arrived while Config.OnMessage was nil.
	Messages uint64

	// State counts updates of states. On a client, it counts those that the client
	// dropped because too many waited. The client then requests everything again. On
	// a server, it counts those that were not sent because too many waited, an
	// outage made them stale, or their channel closed.
	State uint64

	// Duplicate counts packets and bunches that arrived twice, which loses nothing. On a path
	// that loses packets, small reliable calls, opens and closes, and the end of a transfer are
	// sent twice. ClosedChannel counts unreliable calls and states for an actor that is closed.
	//
	// Unreliable counts unreliable messages, of either side, that waited too long
	// or were too many. Late counts UnreliableSequenced messages that arrived
	// after a newer one. BeforeOpen counts unreliable messages that arrived before
	// their actor's open. Assembly counts those of which a part was lost. Repairs
	// counts repair bunches that were not needed.
	Duplicate, ClosedChannel, Unreliable, Late, BeforeOpen, Assembly, Repairs uint64

	// RingFull counts datagrams that arrived faster than this process could handle them.
	// UnknownMachine counts datagrams that were empty or of an unknown kind. BeforeJoin
	// counts those of package stream that arrived before the connection joined.
	RingFull, UnknownMachine, BeforeJoin uint64
}

// Stats returns a snapshot of the connection's counters. It is safe for concurrent use.
func (c *Conn) Stats() Stats {
	channels, actors := c.channelNames()
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

// statsOf returns the counters that the machine and the link keep.
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

// gate implements Channel.Gate. The caller holds the link's lock.
func (c *Conn) gate(channel uint64) string { return c.machine.Gate(channel, c.link.Rated()) }

// addCounts adds the counters that are kept outside the machine.
func (c *Conn) addCounts(s *Stats, l *link.Stats) {
	s.MaxDatagram = l.MaxDatagram
	s.Sealed.State = "off"
	if c.sealed.agreed() {
		s.Sealed = c.sealed.carriers.stats()
		s.Sealed.Carries = c.Sealed()
	}
	s.ServerTime.Steps = c.times.steps.Load()
	s.ServerTime.Refused = c.times.refused.Load()
	s.Severity, s.Methods = c.methodStats()
	s.Deferred = c.deferred.Load()
	s.ReceiveLimit = int(c.reserved.Load())
	s.Drops.RingFull = l.DroppedRing
	s.Drops.UnknownMachine = l.DroppedUnknown
	s.Drops.BeforeJoin = c.extended.Uninvited.Load()
	s.Drops.count(&c.drops)
}

// count sets the counters that are kept outside the machine.
func (d *Drops) count(of *drops.Counters) {
	d.NotOwner = of.Of(drops.NotOwner)
	d.RateLimited = of.Of(drops.RateLimited)
	d.Unbound = of.Of(drops.Unbound)
	d.ActorClosed = of.Of(drops.Closed)
	d.Invalid = of.Of(drops.Invalid)
	d.Blocked = of.Of(drops.Blocked)
	d.Ended = of.Of(drops.Ended)
	d.Saturated = of.Of(drops.Saturated)
	d.Throttled = of.Of(drops.Throttled)
	d.Gone = of.Of(drops.Gone)
	d.UnknownRefs = of.Of(drops.UnknownRef)
	d.Requests = of.Of(drops.Requests)
	d.Answers = of.Of(drops.Answer)
	d.Messages = of.Of(drops.Message)
}

// channelNames returns the open channels, ordered by number. actors is the number of channels
// that belong to actors of the game.
func (c *Conn) channelNames() (names []ChannelStats, actors int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names = make([]ChannelStats, 1, len(c.channels)+1)
	for _, channel := range slices.Sorted(maps.Keys(c.channels)) {
		class := c.channels[channel].class
		names = append(names, ChannelStats{Channel: channel, Class: class.name})
		if !class.ofExtension() {
			actors++
		}
	}
	return names, actors
}

// share returns part divided by whole, or 0 if whole is 0.
func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// counters returns the counters from which the rates are calculated.
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

func (s *Stats) setRates(r statnet.Sample[float64]) {
	s.RateIn, s.RateOut = r.BytesIn, r.BytesOut
	s.PacketRateIn, s.PacketRateOut = r.PacketsIn, r.PacketsOut
	s.BunchRateIn, s.BunchRateOut = r.BunchesIn, r.BunchesOut
	s.SliceRateIn, s.SliceRateOut = r.SlicesIn, r.SlicesOut
	if r.Ticks > 0 {
		s.OutSaturation = r.Saturated / r.Ticks
	}
}

// sampleRates samples the counters of all connections once a second. Stats then has the rates
// of the last second even if it is seldom called. sampleRates also adds the trace's samples.
func (w *World) sampleRates() {
	now := w.frame.beat.Real // the game's clock may stand still, or jump
	for _, c := range w.announced {
		if c.trace.Due(now) {
			m := c.counts()
			c.trace.Sample(now, &m)
		}
	}
	if now.Sub(w.sampled) < statnet.Window {
		return
	}
	w.sampled = now
	for _, c := range w.announced {
		m := c.counts()
		l := c.link.Stats()
		c.rates.Of(now, counters(&m, &l))
	}
}

// fullest is the number of channels that a table shows: those with the fullest reliable buffers.
const fullest = 5

// String returns the counters as a table of at most 100 columns. A carrier other than QUIC,
// such as rpctest's, appears as QUIC with sealed off. UE: stat net, of one connection.
func (s Stats) String() string {
	var t statnet.Table
	t.List("Ping", statnet.Ms(s.RTT), statnet.Ms(s.SmoothedRTT)+" smoothed",
		statnet.Ms(s.MinRTT)+" least", statnet.Ms(s.Jitter)+" jitter")
	t.List("Carrier", s.Sealed.carrier()...)
	t.Row("", "in", "out")
	t.Row("Rate", statnet.Rate(s.RateIn), statnet.Rate(s.RateOut))
	t.Row("Packets", statnet.Often(s.PacketRateIn), statnet.Often(s.PacketRateOut))
	t.Row("Bunches", statnet.Often(s.BunchRateIn), statnet.Often(s.BunchRateOut))
	t.Row("Slices", statnet.Rate(s.SliceRateIn), statnet.Rate(s.SliceRateOut))
	t.Row("Loss", statnet.Percent(s.LossIn), statnet.Percent(s.LossOut))
	t.Row("Saturation", "", statnet.Percent(s.OutSaturation))
	t.Row("Overhead", "", statnet.Percent(1-share(s.PayloadOut, max(1, s.BytesOut))))
	t.Row("In all", statnet.Bytes(float64(s.BytesIn)), statnet.Bytes(float64(s.BytesOut)))
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
		fmt.Sprintf("%d with something reliable in flight", len(s.Channels)))
	s.addChannels(&t)
	t.List("Drops", s.Drops.reasons()...)
	return t.String()
}

// addChannels adds the channels whose reliable buffers are fullest.
func (s *Stats) addChannels(t *statnet.Table) {
	channels := slices.Clone(s.Channels)
	slices.SortStableFunc(channels, func(a, b ChannelStats) int {
		return cmp.Compare(b.Out*max(1, a.Slots), a.Out*max(1, b.Slots))
	})
	for _, ch := range channels[:min(len(channels), fullest)] {
		t.List("", ch.String())
	}
}

// String returns the channel's numbers as one line.
func (ch ChannelStats) String() string {
	text := fmt.Sprintf("%d %s: %d of %d entries, %s queued",
		ch.Channel, cmp.Or(ch.Class, "control"), ch.Out, ch.Slots, statnet.Ms(ch.QueueTime))
	if ch.Gate != "" {
		text += ", held by " + ch.Gate
	}
	return text
}

// String lists the counters that are not 0: "NotOwner 2, Late 17", or "none".
func (d Drops) String() string { return strings.Join(d.reasons(), ", ") }

// reasons lists the counters that are not 0, by name.
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

// saturatedShare is the OutSaturation at or above which StatNet counts a connection as
// saturated. It ignores bursts of a tick or two, which occur when many actors open at once.
const saturatedShare = 0.5

// StatNet returns the numbers of the world and a line for each connection that has joined, as
// a table of at most 100 columns. A connection whose OutSaturation is half or more counts as
// saturated. [Conn.Stats] has all numbers of one connection. UE: stat net.
//
// StatNet is meant for consoles. It takes about 2 µs for each connection and 10 ns for each
// actor. It must be called on the world's goroutine.
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

// role returns "server" or "client", for tables and traces.
func (w *World) role() string {
	if w.IsServer() {
		return "server"
	}
	return "client"
}

// addActors adds the row with the numbers of actors.
func (w *World) addActors(t *statnet.Table) {
	here, relevant, dormant := 0, 0, 0
	for a := range w.actors.all.all {
		if a.class.ofExtension() {
			continue
		}
		here++
		if len(a.openings) > 0 {
			relevant++
		}
		if a.Dormant() {
			dormant++
		}
	}
	considered := 0
	for i, c := range w.replicator.states {
		if i == 0 || c.actor != w.replicator.states[i-1].actor {
			considered++
		}
	}
	t.List("Actors", fmt.Sprintf("%d here", here), fmt.Sprintf("%d considered at each Flush", considered),
		fmt.Sprintf("%d relevant to somebody", relevant), fmt.Sprintf("%d dormant", dormant))
}

// spans are the rows of a world's table that show the range of a value over all connections.
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

// addSpans adds the rows with the minimum, mean and maximum value over all connections.
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

// connColumns are the columns of the rows that addConns adds.
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

// fullestBuffer returns the entries in use and in total of the fullest reliable buffer.
func fullestBuffer(channels []ChannelStats) (out, slots int) {
	for _, ch := range channels {
		if out*ch.Slots <= ch.Out*slots {
			out, slots = ch.Out, ch.Slots
		}
	}
	return out, slots
}
