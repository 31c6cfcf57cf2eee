package bunch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"
)

// trackedBunch returns a bunch with a tracked message.
func trackedBunch(channel uint64, payload string) []byte {
	return appendBunch(nil, header{flags: trackedFlags, channel: channel}, []byte(payload))
}

// track sends a tracked message with arbitrary content.
func (p *pair) track(end int, channel, record uint64) {
	require.NoError(p.t, p.ends[end].SendTracked(channel, record, fmt.Appendf(nil, "t%d", record)))
}

// fates returns all fates as text, and fetches them two at a time.
func fates(c *Conn) (all []string) {
	var some [2]Fate
	for {
		n := c.Fates(some[:])
		for _, f := range some[:n] {
			all = append(all, fmt.Sprintf("%d %s", f.Record, map[Fate]string{{Kept: true}: "kept", {}: "lost", {Back: true}: "back"}[Fate{Kept: f.Kept, Back: f.Back}]))
		}
		if n < len(some) {
			return all
		}
	}
}

// texts takes all messages that are ready and returns them as text.
func (p *pair) texts(end int) (all []string) {
	for _, m := range p.take(end) {
		all = append(all, string(m.Payload))
	}
	return all
}

// opened opens a channel at the client and runs until the server has acknowledged it.
func (p *pair) opened(priority Priority) uint64 {
	ch := p.open(0, priority)
	p.send(0, ch, Reliable, []byte("open"))
	p.run(200 * ms)
	p.take(1)
	require.True(p.t, p.ends[0].Opened(ch))
	return ch
}

// newTracked returns a pair with a channel that the server has acknowledged.
func newTracked(t testing.TB) (p *pair, c *Conn, ch uint64) {
	p = newPair(t, Config{})
	ch = p.opened(Normal)
	return p, p.ends[0], ch
}

func TestTrackedLeavesBetweenCallsAndBulk(t *testing.T) {
	p, c, normal := newTracked(t)
	bulk, low := p.opened(Bulk), p.opened(Low)
	p.send(0, bulk, Reliable, []byte("bulk"))
	p.track(0, bulk, 1)
	p.track(0, low, 2)
	p.send(0, low, Unreliable, []byte("low"))
	p.send(0, normal, Reliable, []byte("normal"))
	p.send(0, 0, Reliable, []byte("control"))
	require.Equal(t, 2*(3+2), c.TrackedQueued())
	require.Equal(t, len("control")+1+len("normal")+1+len("low")+len("bulk")+1+c.TrackedQueued(), c.Queued())
	_, number, ok := c.AppendPacket(p.now, nil, 1404)
	require.True(t, ok)
	require.Zero(t, c.Queued())
	c.Unsent(number)
	checkConn(t, c)
	require.Equal(t, []string{"1 back", "2 back"}, fates(c))
	p.track(0, bulk, 1)
	p.track(0, low, 2)
	b, number, _ := c.AppendPacket(p.now, nil, 1404)
	require.True(t, c.Content().Bulk)
	p.put(0, b)
	p.run(time10)
	var got []string
	for _, m := range p.take(1) {
		got = append(got, fmt.Sprint(m.Channel, m.Delivery, m.Number, string(m.Payload)))
	}
	require.Equal(t, []string{
		fmt.Sprint(0, Reliable, 0, "control"), fmt.Sprint(normal, Reliable, 0, "normal"), fmt.Sprint(low, Unreliable, 0, "low"),
		fmt.Sprint(bulk, Tracked, number, "t1"), fmt.Sprint(low, Tracked, number, "t2"), fmt.Sprint(bulk, Reliable, 0, "bulk"),
	}, got)
	require.Equal(t, []string{"1 kept", "2 kept"}, fates(c))
	require.False(t, p.ends[1].Missed())
	p.settled()
}

// TestTrackedIsPlay: tracked messages don't go into large packets, where they would have to
// wait for the rest of the packet.
func TestTrackedIsPlay(t *testing.T) {
	p, c, ch := newTracked(t)
	bulk := p.opened(Bulk)
	p.track(0, ch, 1)
	p.send(0, bulk, Reliable, pattern(40_000, 1))
	b, _, ok := c.AppendPacket(p.now, nil, 8900)
	require.True(t, ok)
	require.Len(t, b, playDatagram, "bulk fills it")
	require.Equal(t, recovery.Content{Play: true, Bulk: true}, c.Content())
}

// TestTraceOfTracked: a trace distinguishes tracked from unreliable messages.
func TestTraceOfTracked(t *testing.T) {
	var kinds []string
	p := newPair(t, Config{Trace: func(e Event) {
		if e.Delivery == Tracked {
			kinds = append(kinds, e.Kind)
		}
	}})
	p.track(0, p.opened(Normal), 1)
	p.run(time.Second)
	require.Equal(t, []string{"bunch", "ready"}, kinds)
}

// TestTrackedFillsItsPackets: a packet takes as many tracked messages as fit, and none is cut.
func TestTrackedFillsItsPackets(t *testing.T) {
	p, c, ch := newTracked(t)
	for record := range uint64(40) {
		require.NoError(t, c.SendTracked(ch, record, pattern(100, int(record))))
	}
	require.NoError(t, c.SendTracked(ch, 40, pattern(EntryBytes, 40)))
	sent := c.Stats().PacketsSent
	p.run(time10)
	require.Equal(t, sent+4, c.Stats().PacketsSent, "13 of 104 bytes a packet, and the last one beside the long one")
	for record, m := range p.take(1) {
		require.Equal(t, pattern(len(m.Payload), record), m.Payload)
	}
	require.Len(t, fates(c), 41)
	for record := range uint64(maxBunches + 1) {
		require.NoError(t, c.SendTracked(ch, record, nil))
	}
	require.Equal(t, 3*(maxBunches+1), c.TrackedQueued())
	p.run(time10)
	require.Equal(t, sent+6, c.Stats().PacketsSent, "255 bunches a packet")
	require.Len(t, fates(c), maxBunches+1)
}

func TestSendTrackedRefuses(t *testing.T) {
	p, c, ch := newTracked(t)
	unopened, closed, closing, theirs := p.open(0, Normal), p.opened(Normal), p.opened(Normal), p.open(1, Normal)
	require.NoError(t, c.Close(closed, nil))
	p.send(1, theirs, Reliable, nil)
	p.run(100 * ms)
	p.send(0, theirs, Reliable, []byte("an answer, which is acknowledged"))
	p.run(100 * ms)
	require.NoError(t, c.Close(closing, nil))
	for _, r := range []struct {
		name   string
		number uint64
		size   int
		want   string
	}{
		{"1,101 bytes", ch, EntryBytes + 1, ErrBunchTooLarge.Error()},
		{"control", 0, 1, "channel 0 does not accept tracked messages, because it is for control messages"},
		{"a channel that the peer does not know", unopened, 1, "does not accept tracked messages"},
		{"a channel of the peer's", theirs, 1, "does not accept tracked messages"},
		{"a channel that is closed", closed, 1, ErrClosed.Error()},
		{"a channel whose close has not left", closing, 1, ErrClosed.Error()},
		{"a channel that never was", 999, 1, ErrClosed.Error()},
	} {
		require.ErrorContains(t, c.SendTracked(r.number, 7, make([]byte, r.size)), r.want, r.name)
		require.Equal(t, r.number == ch, c.Opened(r.number), r.name)
	}
	require.ErrorContains(t, c.Send(ch, Tracked, nil), "tracked messages are sent with SendTracked", "it needs a record")
	require.Zero(t, c.Queued())
	require.Empty(t, fates(c))
	small := newPair(t, Config{MaxBunch: 100})
	narrow := small.opened(Normal)
	require.ErrorIs(t, small.ends[0].SendTracked(narrow, 7, make([]byte, 101)), ErrBunchTooLarge)
	require.NoError(t, small.ends[0].SendTracked(narrow, 7, make([]byte, 100)))
	small.run(time.Second)
	require.Len(t, small.take(1), 1)
	c.fail(violation(BunchDataOverflow, "over"))
	require.ErrorIs(t, c.SendTracked(ch, 7, nil), c.Err())
}

// TestTrackedBeforeTheOpenIsAcked: a message that is sent before the open is acknowledged is
// dropped if it overtakes the open, but nevertheless reported as kept.
func TestTrackedBeforeTheOpenIsAcked(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(0, Normal)
	p.send(0, ch, Reliable, []byte("open"))
	require.ErrorContains(t, p.ends[0].SendTracked(ch, 1, nil), "until its open has been sent")
	lost := false
	p.drop = func(from int, _ []byte) bool {
		first := from == 0 && !lost
		lost = lost || first
		return first
	}
	p.flush()
	require.True(t, p.ends[0].Opening(ch))
	p.track(0, ch, 2)
	p.flush()
	p.run(time10)
	require.Equal(t, []string{"open"}, p.texts(1))
	require.Equal(t, []string{"2 kept"}, fates(p.ends[0]))
	require.Equal(t, uint64(1), p.ends[1].Stats().DroppedBeforeOpen)
}

// TestOpened: all of the message that opens the channel must be acknowledged, because a part of
// it doesn't open the channel at the peer.
func TestOpened(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := p.ends[0], p.open(0, Normal)
	require.False(t, c.Opened(ch) || c.Opening(ch), "nothing was sent")
	p.send(0, ch, Reliable, pattern(3000, 1))
	packets := 0
	p.drop = func(from int, _ []byte) bool {
		packets++
		return from == 0 && packets == 3
	}
	p.flush()
	require.Equal(t, 3, packets)
	require.False(t, c.Opened(ch), "nothing was acknowledged")
	require.True(t, c.Opening(ch), "all of it has left")
	for end := p.now.Add(100 * ms); c.channels.open[ch].first == 0; {
		require.True(t, p.step(end))
	}
	require.False(t, c.Opened(ch), "the first of three entries was")
	p.run(time10)
	require.Len(t, p.take(1), 1)
	require.True(t, c.Opened(ch))
	require.False(t, c.Opening(ch))

	packets = 0
	p.send(0, ch, Reliable, pattern(3000, 2))
	p.flush()
	for end := p.now.Add(100 * ms); c.channels.open[ch].first == 3; {
		require.True(t, p.step(end))
	}
	require.True(t, c.Opened(ch), "a part of a later message was acknowledged")
	p.run(time10)
	require.False(t, c.Opened(ch+2) || c.Opening(ch+2))
	require.False(t, p.ends[1].Opened(ch), "it is the peer's")
	require.NoError(t, p.ends[1].Close(ch, nil))
	require.True(t, c.Opened(ch), "not known here")
	p.run(100 * ms)
	require.False(t, c.Opened(ch))
}

func TestTrackedFateByPacketThreshold(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	require.NoError(t, l.SendTracked(l.channel, 7, []byte("a")))
	require.NoError(t, l.SendTracked(l.channel, 8, []byte("b")))
	require.Equal(t, 1, l.packets())
	l.sendPackets(3)
	l.wait(50 * ms)
	l.mustAck(2, 3)
	require.Empty(t, fates(l.Conn), "two later packets say nothing yet")
	l.Wake()
	l.mustAck(2, 4)
	require.False(t, l.Wake(), "fates wake nobody")
	require.Equal(t, []string{"7 lost", "8 lost"}, fates(l.Conn))
	require.Zero(t, l.packets(), "nothing of it leaves again")

	t.Log("# it arrived all the same, later")
	l.mustAck(1, 4)
	require.Equal(t, uint64(1), l.Stats().SpuriousLosses)
	require.Empty(t, fates(l.Conn), "the fate was told")
}

// TestTrackedFateAfterSilence: nothing is sent after the message except probes.
func TestTrackedFateAfterSilence(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		p, c, ch := newTracked(t)
		p.drop = func(from int, _ []byte) bool { return (from == 0) != arrives }
		p.track(0, ch, 1)
		p.flush()
		p.drop = nil
		p.run(time10)
		require.Equal(t, []string{map[bool]string{true: "1 kept", false: "1 lost"}[arrives]}, fates(c))
		require.Equal(t, arrives, len(p.take(1)) == 1)
		p.settled()
	}
}

// TestTrackedFateOfACarrierThatTells: the arrival of a datagram doesn't mean that its contents
// were kept.
func TestTrackedFateOfACarrierThatTells(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	l.SetPath(l.at, Path{Fates: true})
	for record := range uint64(2) {
		require.NoError(t, l.SendTracked(l.channel, record, nil))
		require.Equal(t, 1, l.packets())
	}
	l.Fate(l.at, 1, true)
	require.Empty(t, fates(l.Conn))
	l.Fate(l.at, 2, false)
	require.Equal(t, []string{"1 lost"}, fates(l.Conn))
	l.mustAck(1, 1)
	require.Equal(t, []string{"0 kept"}, fates(l.Conn))
}

func TestUnsentTracked(t *testing.T) {
	p, c, ch := newTracked(t)
	other := p.opened(Low)
	for record := range uint64(3) {
		p.track(0, ch, record)
	}
	_, number, ok := c.AppendPacket(p.now, nil, 1404)
	require.True(t, ok)
	p.track(0, ch, 3)
	c.Unsent(number)
	checkConn(t, c)
	require.Equal(t, []string{"0 back", "1 back", "2 back"}, fates(c))
	p.run(time10)
	require.Equal(t, []string{"t3"}, p.texts(1))
	require.Equal(t, []string{"3 kept"}, fates(c))

	t.Log("# others were taken back meanwhile, or a channel was closed")
	p.track(0, ch, 4)
	p.track(0, other, 5)
	_, number, _ = c.AppendPacket(p.now, nil, 1404)
	p.track(0, ch, 6)
	c.TakeBack()
	require.NoError(t, c.Close(other, nil))
	c.Unsent(number)
	checkConn(t, c)
	require.Equal(t, []string{"6 back", "4 back", "5 back"}, fates(c))
	require.Zero(t, c.Stats().DroppedTracked)
	require.Zero(t, c.TrackedQueued())

	t.Log("# nor is one told twice that the peer has acknowledged")
	p.track(0, ch, 7)
	b, number, _ := c.AppendPacket(p.now, nil, 1404)
	p.put(0, b)
	for len(p.wire) > 0 {
		f := p.wire[0]
		p.wire = p.wire[1:]
		p.now = f.at
		require.NoError(t, p.ends[f.to].Receive(p.now, f.data))
		p.now = p.now.Add(50 * ms)
		if ack, _, ok := p.ends[1].AppendPacket(p.now, nil, 1404); ok {
			p.put(1, ack)
		}
	}
	c.Unsent(number)
	require.Equal(t, []string{"7 kept"}, fates(c))
	p.run(time10)
	require.Empty(t, fates(c))
	p.settled()
}

// TestTakeBack: an owner that composes new messages at each tick takes back the old ones.
func TestTakeBack(t *testing.T) {
	p, c, ch := newTracked(t)
	c.Cork(true)
	p.track(0, ch, 1)
	p.track(0, ch, 2)
	p.run(100 * ms)
	require.NotZero(t, c.TrackedQueued(), "the cork holds them")
	c.TakeBack()
	require.Equal(t, []string{"1 back", "2 back"}, fates(c))
	require.Zero(t, c.TrackedQueued())
	c.TakeBack()
	p.track(0, ch, 3)
	c.Flush()
	p.run(100 * ms)
	c.TakeBack()
	require.Equal(t, []string{"3 kept"}, fates(c))
	require.Equal(t, []string{"t3"}, p.texts(1))
	require.Zero(t, c.Stats().DroppedTracked)
	p.settled()
}

func TestTrackedOfAChannelThatCloses(t *testing.T) {
	for _, closer := range []int{0, 1} {
		p, c, ch := newTracked(t)
		other := p.opened(Normal)
		p.track(0, ch, 1)
		p.flush()
		c.Cork(true)
		p.track(0, other, 2)
		p.track(0, ch, 3)
		p.track(0, other, 4)
		require.NoError(t, p.ends[closer].Close(ch, nil))
		got := fates(c)
		require.Equal(t, closer == 0, slices.Contains(got, "3 lost"))
		p.run(100 * ms)
		require.Contains(t, append(got, fates(c)...), "3 lost", "what waited")
		require.Equal(t, 2*5, c.TrackedQueued())
		c.Cork(false)
		p.run(time10)
		require.Subset(t, p.texts(1), []string{"t1", "t2", "t4"}, "what was in flight, and what waited on another channel")
		require.Equal(t, []string{"2 kept", "4 kept"}, fates(c))
		require.Empty(t, c.channels.open[ch])
		p.settled()
	}
}

func TestTrackedWaits(t *testing.T) {
	l := newLossTest(t, Config{History: 64})
	l.roundTrip()
	record := uint64(0)
	track := func() int {
		record++
		require.NoError(t, l.SendTracked(l.channel, record, pattern(100, 0)))
		checkConn(t, l.Conn)
		n := l.packets()
		l.TakeBack()
		return n
	}
	require.Equal(t, 1, track())
	t.Log("# the rate")
	l.Hold(true, false)
	require.Zero(t, track())
	require.NoError(t, l.SendTracked(l.channel, 99, nil))
	waits, bulk := l.Waiting()
	require.True(t, waits && !bulk)
	l.Hold(false, true)
	require.Equal(t, 1, l.packets())
	waits, _ = l.Waiting()
	require.False(t, waits)
	l.Hold(false, false)

	t.Log("# the cork")
	l.Changed()
	l.Cork(true)
	require.Zero(t, track())
	require.False(t, l.Changed())
	l.Cork(false)
	require.False(t, l.Changed(), "nothing waited")
	l.Cork(true)
	require.NoError(t, l.SendTracked(l.channel, 99, nil))
	require.False(t, l.Changed())
	l.Cork(false)
	require.True(t, l.Changed())
	require.NoError(t, l.SendTracked(l.channel, 99, nil))
	require.True(t, l.Changed())

	t.Log("# the history")
	for track() > 0 {
	}
	require.Equal(t, l.limits.History-1, l.sent.spread())
	l.mustAck(0, uint32(l.sent.Next-1))
	require.Equal(t, 1, track())

	t.Log("# the dark")
	l.wait(l.outageAfter())
	l.packets()
	require.NoError(t, l.SendTracked(l.channel, 100, nil))
	require.Zero(t, l.packets())
	require.True(t, l.probesFrequently())
	waits, _ = l.Waiting()
	require.False(t, waits, "the rate is not why it waits")
	l.TakeBack()
	require.False(t, l.probesFrequently())
}

// TestTrackedAfterAnOutage: messages that waited through the outage are stale, but the latest
// ones aren't.
func TestTrackedAfterAnOutage(t *testing.T) {
	p, c, ch := newTracked(t)
	p.drop = func(int, []byte) bool { return true }
	p.track(0, ch, 1)
	p.run(time.Second)
	p.track(0, ch, 2)
	p.run(3 * time.Second)
	p.track(0, ch, 3)
	p.drop = nil
	p.run(time10)
	require.Equal(t, []string{"t3"}, p.texts(1))
	got := fates(c)
	slices.Sort(got)
	require.Equal(t, []string{"1 lost", "2 lost", "3 kept"}, got)
	require.Equal(t, uint64(1), c.Stats().DroppedTracked)
	p.settled()
}

// TestTrackedBeforeBulkInTime: bulk waits for tracked messages, but nothing else does, and they
// don't saturate the path.
func TestTrackedBeforeBulkInTime(t *testing.T) {
	p := newPair(t, Config{Rate: 10_000})
	c, ch, bulk := p.ends[0], p.opened(Normal), p.opened(Bulk)
	c.Cork(true)
	for range 10 {
		require.NoError(t, c.SendTracked(ch, 1, make([]byte, 996)))
	}
	require.Equal(t, 10_000, c.TrackedQueued())
	require.Equal(t, 10_000, c.Stats().Queued)
	rate := c.rate()
	require.Zero(t, c.QueueTime(ch))
	require.Equal(t, time.Duration(10_000/rate*float64(time.Second)), c.QueueTime(bulk))
	for range 10 {
		p.now = p.now.Add(50 * ms)
		c.advanceClock(p.now)
		c.Cork(true)
		c.Cork(false)
	}
	bytes, saturated := c.Unreliable()
	require.Zero(t, bytes)
	require.False(t, saturated)
}

// TestTrackedThatNobodyTakesBack: the sender's queue is limited as well.
func TestTrackedThatNobodyTakesBack(t *testing.T) {
	p, c, ch := newTracked(t)
	c.Cork(true)
	fit := maxUnreliable / unreliableCost(1, 1004)
	for record := range uint64(fit + 2) {
		require.NoError(t, c.SendTracked(ch, record, make([]byte, 1000)))
	}
	checkConn(t, c)
	require.Equal(t, []string{fmt.Sprint(fit, " lost"), fmt.Sprint(fit+1, " lost")}, fates(c))
	require.Equal(t, uint64(2), c.Stats().DroppedTracked)
	c.Cork(false)
	p.run(time10)
	require.Len(t, fates(c), fit)
	p.take(1)
	p.settled()
}

func TestTrackedBeforeOpenAndAfterClose(t *testing.T) {
	r := newReceiver(t, Config{})
	r.must(trackedBunch(1, "x"))
	r.must(partOf(flagBegin|flagOpen, 0, EntryBytes))
	r.must(trackedBunch(1, "x"))
	require.Equal(t, uint64(2), r.Stats().DroppedBeforeOpen)
	r.must(partOf(flagEnd, 1, 1))
	require.Len(t, r.got(), 1)
	r.must(trackedBunch(1, "y"), trackedBunch(1, ""))
	require.Equal(t, []string{"1 y", "1 "}, r.got())
	r.must(wholeOf(flagClose, 1, 2, "z"))
	r.must(trackedBunch(1, "x"))
	r.drainAcks()
	r.must(trackedBunch(1, "x"))
	require.Equal(t, uint64(2), r.Stats().DroppedClosedChannel)
	require.Equal(t, []string{"1 z close"}, r.got())
	require.False(t, r.Missed(), "the peer closed it")
}

// TestTrackedComesAsItComes: messages are delivered as they arrive, even from older packets,
// with their packet's number.
func TestTrackedComesAsItComes(t *testing.T) {
	r := newOpened(t, 1)
	var got []uint64
	for _, n := range []uint32{5, 4, 6, 4, 65_600} {
		r.number = n
		r.must(trackedBunch(1, "a"), trackedBunch(1, "b"))
		for m, ok := r.Next(); ok; m, ok = r.Next() {
			require.Equal(t, Tracked, m.Delivery)
			got = append(got, m.Number)
		}
	}
	require.Equal(t, []uint64{5, 5, 4, 4, 6, 6, 65_600, 65_600}, got)
}

// TestMissed: messages for which there is no room are dropped. The owner is told, because the
// peer doesn't know.
func TestMissed(t *testing.T) {
	r := newOpened(t, 1)
	r.must(appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: 1}, make([]byte, 1000)))
	fit := maxParked/1189 - 1
	for n := range fit + 3 {
		require.Equal(t, n == fit+1 || n == fit+2, r.Missed(), n)
		r.must(trackedBunch(1, strings.Repeat("x", 1000)))
	}
	require.True(t, r.Missed())
	require.False(t, r.Missed(), "once")
	require.Equal(t, uint64(3), r.Stats().DroppedTracked)
	require.Zero(t, r.Stats().DroppedUnreliable)
	require.Len(t, r.got(), fit+1)
	require.Zero(t, r.assemblies.waiting)
	r.must(trackedBunch(1, "x"))
	require.False(t, r.Missed())
	require.Len(t, r.got(), 1)

	t.Log("# an unreliable one that is dropped is no news")
	for range maxParked/1189 + 1 {
		r.must(appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: 1}, make([]byte, 1000)))
	}
	require.Equal(t, uint64(1), r.Stats().DroppedUnreliable)
	require.False(t, r.Missed())
}

func TestTrackedViolations(t *testing.T) {
	for _, c := range []struct {
		name   string
		code   Code
		config Config
		bunch  []byte
	}{
		{"control", BunchBadChannelIndex, Config{}, trackedBunch(0, "x")},
		{"a channel of the receiver's", BunchBadChannelIndex, Config{}, trackedBunch(2, "x")},
		{"one that it never opened", BunchBadChannelIndex, Config{}, trackedBunch(4, "x")},
		{"another flag", BunchDataOverflow, Config{}, []byte{trackedFlags | flagEnd, 1, 1, 'x'}},
		{"another delivery", BunchDataOverflow, Config{}, []byte{flagTracked | byte(UnreliableSequenced), 1, 1, 'x'}},
		{"no delivery", BunchDataOverflow, Config{}, []byte{flagTracked, 1, 1, 'x'}},
		{"truncated", BunchDataOverflow, Config{}, []byte{trackedFlags, 1, 2, 'x'}},
		{"1,101 bytes", BunchDataOverflow, Config{}, trackedBunch(1, strings.Repeat("x", EntryBytes+1))},
		{"beyond MaxBunch", PartialTooLarge, Config{MaxBunch: 10}, trackedBunch(1, strings.Repeat("x", 11))},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newReceiver(t, c.config)
			own, err := r.Open(Normal)
			require.NoError(t, err)
			require.NoError(t, r.Send(own, Reliable, nil))
			r.must(wholeOf(flagOpen, 1, 0, "a"))
			requireCode(t, c.code, r.receive(c.bunch))
		})
	}
	t.Run("refused", func(t *testing.T) {
		r := newReceiver(t, Config{})
		r.Refuse(99)
		requireCode(t, 99, r.receive(trackedBunch(1, "x")))
	})
	t.Run("control of the client", func(t *testing.T) {
		c, _ := newClient(t, Config{})
		requireCode(t, BunchBadChannelIndex, c.Receive(epoch, packetOf(0, trackedBunch(0, "x"))))
	})
}

// A channel that the receiver opened remains the receiver's after both ends have closed it.
func TestTrackedOnAClosedChannelOfTheReceivers(t *testing.T) {
	p, c, ch := newTracked(t)
	require.NoError(t, c.Close(ch, nil))
	p.run(time10)
	require.Empty(t, c.channels.open[ch])
	requireCode(t, BunchBadChannelIndex, c.Receive(p.now, packetOf(uint32(c.received.Next), trackedBunch(ch, "x"))))
}

// TestRandomTrackedBunches: whatever bytes follow the flags, the connection continues or ends
// with a code.
func TestRandomTrackedBunches(t *testing.T) {
	random := testkit.Rand(t)
	for range 2000 {
		r := newOpened(t, 1)
		for range 20 {
			b := []byte{flagTracked}
			if random.IntN(8) > 0 {
				b[0] = trackedFlags
			}
			for range random.IntN(12) {
				b = append(b, byte(random.IntN(256)>>random.IntN(8)))
			}
			if err := r.receive(b); err != nil {
				require.IsType(t, &Error{}, err)
				break
			}
			checkConn(t, r.Conn)
		}
	}
}

// TestTrackedMemoryGoesBack: an idle connection is small, no matter what it has sent.
func TestTrackedMemoryGoesBack(t *testing.T) {
	p, c, ch := newTracked(t)
	for record := range uint64(3000) {
		p.track(0, ch, record)
	}
	p.run(time.Second)
	p.take(1)
	into := make([]Fate, 2999)
	require.Equal(t, 2999, c.Fates(into))
	p.run(2 * trimAfter)
	require.Zero(t, cap(c.tracked.waiting.items))
	require.Len(t, fates(c), 1, "nothing is forgotten")
}
