package bunch

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

func TestCorkHoldsATick(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := p.ends[0], p.open(0, Normal)
	c.Cork(true)
	c.Cork(true)
	require.EqualValues(t, 1, c.Stats().Ticks, "it is one tick")
	for i := range 10 {
		p.send(0, ch, Reliable, []byte{byte(i)})
		p.flush()
	}
	require.Zero(t, p.sent[0])
	_, ok := c.NextTimeout()
	require.False(t, ok)
	c.Cork(false)
	p.flush()
	require.Equal(t, 1, p.sent[0], "one tick is one datagram")

	t.Log("# a flush lets what is there leave, and no more")
	c.Cork(true)
	p.send(0, ch, Reliable, []byte("urgent"))
	c.Flush()
	p.flush()
	require.Equal(t, 2, p.sent[0])
	p.send(0, ch, Reliable, []byte("later"))
	p.flush()
	require.Equal(t, 2, p.sent[0])
	c.Cork(false)
	c.Flush()
	p.flush()
	require.Equal(t, 3, p.sent[0])
}

// TestChangesDuringATickStay: during a tick, an owner's calls don't set Changed, but don't
// clear an earlier change either.
func TestChangesDuringATickStay(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := p.ends[0], p.opened(Normal)
	for name, do := range map[string]func() error{
		"Send":        func() error { return c.Send(ch, Reliable, nil) },
		"SendTracked": func() error { return c.SendTracked(ch, 1, nil) },
		"Close":       func() error { return c.Close(p.open(0, Normal), nil) },
	} {
		c.Cork(true)
		c.Changed()
		require.NoError(t, do())
		require.False(t, c.Changed(), name)
		c.SetReceiveLimit(1)
		require.NoError(t, do())
		require.True(t, c.Changed(), name)
	}
}

// TestTicksWithoutAPause: if ticks take longer than their interval, the next one begins before
// the carrier has sent the messages of the last one. If the cork held them back again, an end
// with bulk, whose carrier runs on its own goroutine, would send nothing for seconds.
func TestTicksWithoutAPause(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := p.ends[0], p.open(0, Normal)
	c.Cork(true)
	p.send(0, ch, Reliable, []byte("tick"))
	c.Cork(false)
	c.Cork(true)
	p.flush()
	require.Equal(t, 1, p.sent[0])

	t.Log("# what this tick sends then waits for its end")
	p.send(0, ch, Reliable, []byte("tock"))
	p.flush()
	require.Equal(t, 1, p.sent[0])
	c.Cork(false)
	p.flush()
	require.Equal(t, 2, p.sent[0])
	c.Cork(true)
	p.send(0, ch, Reliable, []byte("tick"))
	p.flush()
	require.Equal(t, 2, p.sent[0])
}

// TestTicksDoNotHoldBulk: a transfer continues while a tick is simulated. Otherwise, a server
// whose ticks take 20 of 33 ms would send at 0.4 of the link's rate, and an overloaded one at a
// thirtieth.
func TestTicksDoNotHoldBulk(t *testing.T) {
	p := newPair(t, Config{})
	c, play, bulk := p.ends[0], p.open(0, Normal), p.open(0, Bulk)
	p.send(0, bulk, Reliable, pattern(30_000, 0))
	c.Cork(true)
	p.send(0, play, Reliable, []byte("tick"))
	p.run(time.Second)
	require.Len(t, p.take(1), 1, "the bulk")
	c.Cork(false)
	p.run(time.Second)
	require.Len(t, p.take(1), 1)
}

// TestKeepAlive: an idle end asks for an ack once in each interval. The other end only answers.
func TestKeepAlive(t *testing.T) {
	p := newPair(t, Config{})
	c, ch := p.ends[0], p.open(0, Normal)
	c.config.KeepAlive = 10 * time.Second
	p.send(0, ch, Reliable, []byte("hello"))
	p.run(9900 * ms)
	was := p.sent
	p.run(60 * time.Second)
	require.Equal(t, [2]int{6, 6}, [2]int{p.sent[0] - was[0], p.sent[1] - was[1]}, "one each 10 s, and its ack")

	t.Log("# who says something needs none")
	was = p.sent
	for range 6 {
		p.send(0, ch, Reliable, []byte("hello"))
		p.run(5 * time.Second)
	}
	require.Equal(t, 6, p.sent[0]-was[0])
}

// TestKeepAliveOfAnyLength: the longest KeepAlive is never due. It once overflowed, so it was
// always due, and a packet was sent every round trip.
func TestKeepAliveOfAnyLength(t *testing.T) {
	p := newPair(t, Config{KeepAlive: math.MaxInt64})
	ch := p.open(0, Normal)
	p.run(time.Second)
	p.send(0, ch, Reliable, []byte("hello"))
	p.run(10 * time.Second)
	was := p.sent
	p.run(60 * time.Second)
	require.Equal(t, was, p.sent)
}

func TestCorkLetsGapAcksAndResendsPass(t *testing.T) {
	l := newLossTest(t, Config{})
	l.sendPackets(5)
	l.Cork(true)
	t.Log("# a plain ack waits for the tick, but not longer than its delay")
	l.wait(50 * ms)
	require.NoError(t, l.Receive(l.at, appendPacketHeader(nil, &packetHeader{flags: flagPing, number: 0})))
	l.acks = 1
	l.wait(39 * ms)
	require.Zero(t, l.packets())
	l.wait(1 * ms)
	require.Equal(t, 1, l.packets())
	t.Log("# that of a gap does not wait")
	require.NoError(t, l.Receive(l.at, appendPacketHeader(nil, &packetHeader{flags: flagPing, number: 2})))
	require.Equal(t, 1, l.packets())
	t.Log("# nor a resend")
	l.acks = 3
	l.mustAck(1, 4)
	require.NoError(t, l.Send(l.channel, Reliable, []byte("new")))
	b, _, ok := l.AppendPacket(l.at, nil, 1404)
	require.True(t, ok)
	require.Equal(t, []string{"1/0"}, bunchesOf(t, b))
	require.Zero(t, l.packets())
}

// TestLongTicksAreHeard: an end that is corked for minutes sends nothing new, but still
// acknowledges, asks for retransmissions and raises the limit. Either end is corked in turn, on
// a lossy path.
func TestLongTicksAreHeard(t *testing.T) {
	random := testkit.Rand(t)
	for corked := range 2 {
		p := newPair(t, Config{ReliableBuffer: 64})
		p.drop = func(int, []byte) bool { return random.Float64() < 0.1 }
		busy, other := p.ends[corked], p.ends[1-corked]
		down, up := p.open(1-corked, Normal), p.open(corked, Normal)
		p.send(corked, up, Reliable, []byte("before"))
		p.flush()
		busy.Cork(true)
		p.send(corked, up, Reliable, []byte("in the tick"))
		got := 0
		for n := range 3000 {
			p.send(1-corked, down, Reliable, pattern(1000, n))
			p.run(33 * ms)
			require.Less(t, out(other, down), 48, "after %d ticks", n) // one seed in some hundreds has 32
			if n%30 == 0 {                                             // the limit would else be reached
				got += len(p.take(corked))
			}
		}
		p.run(time10)
		require.Equal(t, 3000, got+len(p.take(corked)))
		require.Len(t, p.take(1-corked), 1)
		busy.Cork(false)
		p.run(time10)
		require.Len(t, p.take(1-corked), 1)
		p.settled()
	}
}

// TestLimitOfALongTick: for the first 40 ms of a tick, a higher limit waits for other data, so
// that the tick is sent in a single datagram.
func TestLimitOfALongTick(t *testing.T) {
	l := newLossTest(t, Config{})
	l.Cork(true)
	l.SetReceiveLimit(1 << 20)
	require.Zero(t, l.packets())
	at, ok := l.NextTimeout()
	require.True(t, ok)
	require.Equal(t, 40*ms, at.Sub(l.at))
	l.wait(39 * ms)
	require.Zero(t, l.packets())
	l.wait(1 * ms)
	b, _, ok := l.AppendPacket(l.at, nil, 1404)
	require.True(t, ok)
	require.Equal(t, byte(flagLimit), b[1])
	require.Zero(t, l.packets())
}

func TestEverySixteenthAckOnlyPacketPings(t *testing.T) {
	r := newReceiver(t, Config{})
	pings := 0
	for n := range uint32(8 * 64) {
		require.NoError(t, r.Conn.Receive(r.now, appendPacketHeader(nil, &packetHeader{flags: flagPing, number: n})))
		if b, _, ok := r.AppendPacket(r.now, nil, 1404); ok && b[1]&flagPing != 0 {
			pings++
		}
	}
	require.Equal(t, uint64(64), r.Stats().AcksOnlySent)
	require.Equal(t, 4, pings, "every 16th")
}

// TestHistoryShrinks: after the ack of a ping, the receiver's acks leave out the numbers that
// it has acknowledged before.
func TestHistoryShrinks(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(0, Normal)
	for range 400 {
		p.send(0, ch, Reliable, make([]byte, 1098))
		p.run(5 * ms)
		p.take(1)
	}
	p.run(time10)
	r := &p.ends[1].received
	require.Less(t, r.Next-r.floor, uint64(16*8+20))
	p.settled()
}

func TestTrim(t *testing.T) {
	p := newPair(t, Config{})
	ch := p.open(0, Normal)
	p.send(0, ch, Reliable, make([]byte, 60_000))
	p.run(time.Second)
	p.take(1)
	c := p.ends[0]
	require.True(t, c.blocks.hasSpare())
	p.run(2*trimAfter + time.Second)
	require.False(t, c.blocks.hasSpare())
	require.False(t, p.ends[1].payloads.blocks.hasSpare())
	require.Empty(t, c.rings.items)
	require.Zero(t, c.sent.Cap())
	for _, c := range p.ends {
		_, ok := c.NextTimeout()
		require.False(t, ok)
	}
	t.Log("# and goes on")
	p.send(0, ch, Reliable, make([]byte, 60_000))
	p.run(time.Second)
	require.Len(t, p.take(1), 1)
}

// TestClockThatRunsBack: the connection's own clock never runs backwards.
func TestClockThatRunsBack(t *testing.T) {
	l := newLossTest(t, Config{})
	l.at = l.at.Add(time.Hour)
	l.sendPackets(1)
	l.at = epoch
	l.wait(0)
	l.mustAck(0, 0)
	require.Equal(t, time.Microsecond, l.congestion.Latest)
	at, _ := l.NextTimeout()
	require.False(t, at.Before(epoch.Add(time.Hour)))
}

func TestTrace(t *testing.T) {
	var events []Event
	l := newLossTest(t, Config{Trace: func(e Event) { events = append(events, e) }})
	l.sendPackets(5)
	l.wait(50 * ms)
	l.mustAck(3, 4)
	ch := l.channel
	require.Equal(t, []Event{
		{Kind: "queued", Channel: ch, Bytes: 1000},
		{Kind: "bunch", Channel: ch, Bytes: 1002},
		{Kind: "sent", Number: 0, Bytes: 6 + 1 + 1 + 2 + 2 + 1002, Asks: true},
		{Kind: "queued", Channel: ch, Sequence: 1, Bytes: 1000},
	}, events[:4])
	require.Equal(t, []Event{
		{At: 50 * ms, Kind: "received", Bytes: 14},
		{At: 50 * ms, Kind: "acked", Number: 4, Bytes: 1014},
		{At: 50 * ms, Kind: "acked", Number: 3, Bytes: 1014},
		{At: 50 * ms, Kind: "lost", Number: 0, Bytes: 1014},
	}, events[15:19])

	l.mustAck(0, 2)
	require.Contains(t, events, Event{At: 50 * ms, Kind: "freed", Channel: ch, Sequence: 5})

	require.NoError(t, l.Send(ch, Unreliable, []byte("late")))
	l.dropUnreliable(l.channels.find(ch), 0)
	require.Contains(t, events, Event{At: 50 * ms, Kind: "dropped", Channel: ch, Bytes: 4, Delivery: Unreliable})

	t.Log("# a message names the packet that completed it")
	require.NoError(t, l.Receive(l.at, packetOf(l.acks, wholeOf(flagOpen, 2, 0, "x"))))
	require.Equal(t, Event{At: 50 * ms, Kind: "ready", Number: uint64(l.acks), Channel: 2, Bytes: 1}, events[len(events)-1])
}

// TestProbeForALimitIsNotOverdue: an end that is blocked by the limit long after its last
// packet asks for a higher one after a probe timeout, and not at a time in the past, for which
// no driver could wait (a script of TestScripts, QUIVER_SEED=11167654613008467994).
func TestProbeForALimitIsNotOverdue(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	l.wait(5 * time.Second)
	l.flow.limit = l.flow.sent
	require.NoError(t, l.Send(l.channel, Reliable, pattern(100, 0)))
	require.Zero(t, l.packets())
	at, ok := l.NextTimeout()
	require.True(t, ok)
	require.True(t, at.After(l.at), "%v ago", l.at.Sub(at))
}

// TestTrimOfAnAssembly: the memory of a complete message in parts is kept for the next one, but
// only for a while.
func TestTrimOfAnAssembly(t *testing.T) {
	r := newReceiver(t, Config{})
	_, due := r.NextTimeout()
	require.False(t, due)
	r.assemblies.spare = new(assembly)
	at, due := r.NextTimeout()
	require.True(t, due)
	require.NoError(t, r.Advance(at))
	require.Nil(t, r.assemblies.spare)
}

// TestTrimOfEachPart: no matter which part has spare memory, a trim is due, and frees it. If the
// other parts had none, an idle connection used to keep the memory of fates and of records.
func TestTrimOfEachPart(t *testing.T) {
	for part, fill := range map[string]func(c *Conn){
		"blocks": func(c *Conn) { c.blocks.put(c.blocks.get(1)) },
		"pieces": func(c *Conn) { c.payloads.blocks.put(c.payloads.blocks.get(EntryBytes)) },
		"rings":  func(c *Conn) { c.rings.put(make([]entry, 4)) },
		"ready":  func(c *Conn) { c.ready.spare.put(new(readyBlock)) },
		"fates": func(c *Conn) {
			c.queueFate(1, true)
			c.Fates(make([]Fate, 1))
		},
		"repairs":    func(c *Conn) { c.repairs.memory = make([]byte, 1) },
		"restorer":   func(c *Conn) { c.restorer.sets = make([]*repairSet, 0, 1) },
		"assemblies": func(c *Conn) { c.assemblies.spare = new(assembly) },
		"records": func(c *Conn) {
			for range initialSent + 1 {
				c.sent.Push(initialSent)
			}
		},
	} {
		r := newReceiver(t, Config{})
		require.False(t, r.hasSpare(), part)
		fill(r.Conn)
		require.True(t, r.hasSpare(), part)
		for range 2 {
			at, due := r.NextTimeout()
			require.True(t, due, part)
			require.NoError(t, r.Advance(at))
			if !r.hasSpare() {
				break
			}
		}
		_, due := r.NextTimeout()
		require.False(t, due, part)
	}
}

// TestTrimOfBulk: the memory of bulk that was in flight is freed within two seconds, except for
// what play may need.
func TestTrimOfBulk(t *testing.T) {
	p := newPair(t, Config{})
	p.open(0, Bulk)
	c := p.ends[0]
	for range 1000 {
		c.blocks.put(make([]byte, 0, EntryBytes))
	}
	p.run(2*trimBulkAfter + 100*ms)
	require.LessOrEqual(t, len(c.blocks.full.items), maxSmall)
}

// TestTrimBesidePlay: memory that was only needed for a burst is freed while play continues,
// and memory that play needs isn't.
func TestTrimBesidePlay(t *testing.T) {
	p := newPair(t, Config{})
	bulk, play := p.open(0, Bulk), p.open(0, Normal)
	for range 200 {
		p.send(0, bulk, Reliable, make([]byte, EntryBytes-2))
	}
	c := p.ends[0]
	tick := func() {
		p.send(0, play, Reliable, make([]byte, 20))
		p.run(33 * ms)
		p.take(1)
	}
	for range 60 {
		tick()
	}
	require.True(t, c.blocks.hasSpare())
	require.Len(t, c.rings.items, 1)
	places := c.sent.Cap()
	for range 30 * 30 {
		tick()
	}
	require.Empty(t, c.blocks.full.items)
	require.Empty(t, c.rings.items)
	require.Less(t, c.sent.Cap(), places)
	require.Zero(t, testing.AllocsPerRun(20, func() { c.blocks.put(c.blocks.get(20)) }), "play's blocks stay")
}
