package bunch

import (
	"github.com/quivernet/quiver/internal/testkit"
	"math"

	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFlowCounts(t *testing.T) {
	var f flow
	f.init(1 << 20)
	require.True(t, f.updateDue, "more than what a peer assumes")
	require.Equal(t, uint64(1024), f.limitKiB())
	f.limitSent(0)
	require.False(t, f.updateDue)
	require.True(t, f.charge(1<<20))
	require.False(t, f.charge(1))

	t.Log("# a quarter of the window is worth a packet")
	f.consume(0, 0, 256<<10-1)
	require.False(t, f.updateDue)
	f.consume(0, 0, 1)
	require.True(t, f.updateDue)
	require.Equal(t, uint64(1280), f.limitKiB())
	f.grow(1 << 10)
	require.Equal(t, uint64(1<<20), f.capacity, "it never shrinks")

	t.Log("# a higher limit ends the wait, so the next one asks as soon as the first; a late lower limit changes nothing")
	f.block(0)
	f.askCount = 3
	f.raise(512)
	require.False(t, f.blocked)
	require.Zero(t, f.askCount)
	f.raise(300)
	require.Equal(t, uint64(512<<10), f.limit)
	f.sent = 512<<10 - 100
	require.True(t, f.allows(100, Normal))
	require.False(t, f.allows(101, Normal))

	t.Log("# bulk leaves playLimit to play; what was charged already may leave in any case")
	require.False(t, f.allows(1, Bulk))
	require.True(t, f.allows(0, Bulk))
	f.sent = 512<<10 - playLimit - 1
	require.True(t, f.allows(1, Bulk))
	require.False(t, f.allows(2, Bulk))
}

// TestAccountsAgree sends thousands of messages of all kinds in both directions over a bad
// path.
func TestAccountsAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	p := newPair(t, Config{Overflow: OverflowError})
	p.drop = func(int, []byte) bool { return random.IntN(10) == 0 }
	var channels [2][]uint64
	for i := range 6 {
		channels[i&1] = append(channels[i&1], p.open(i&1, Priority(i%4)))
	}
	for range testkit.Brief(1500, 4000) {
		end := random.IntN(2)
		size := random.IntN([]int{20, 1200, 5000, 40000}[random.IntN(4)])
		ch := channels[end][random.IntN(3)]
		if err := p.ends[end].Send(ch, Delivery(random.IntN(4)), pattern(size, 0)); err != nil {
			require.ErrorIs(t, err, ErrReliableBufferFull)
		}
		if random.IntN(3) == 0 {
			p.max = 1163 + random.IntN(290)
			p.run(time.Duration(random.IntN(30)) * ms)
		}
		if random.IntN(10) == 0 {
			p.take(0)
			p.take(1)
		}
	}
	p.drop = nil
	for range 100 {
		p.run(100 * ms)
		p.take(0)
		p.take(1)
	}
	p.settled()
	for _, c := range p.ends {
		require.Greater(t, c.flow.sent, uint64(1<<20))
		require.Equal(t, c.flow.received, c.flow.consumed)
	}
}

// TestBlockedSenderSurvivesLostLimits: for a while, every packet with a limit is lost.
func TestBlockedSenderSurvivesLostLimits(t *testing.T) {
	p := newPair(t, Config{ReliableBuffer: 1024})
	ch := p.open(0, Normal)
	for range 20 {
		p.send(0, ch, Reliable, pattern(32<<10, 1))
	}
	losing := true
	p.drop = func(from int, b []byte) bool { return losing && from == 1 && b[1]&flagLimit != 0 }
	got := 0
	for range 100 {
		p.run(100 * ms)
		got += len(p.take(1))
	}
	require.Less(t, got, 8, "256 KiB and no more")
	require.True(t, p.ends[0].flow.blocked)
	sent := p.sent[0]
	p.run(time10)
	require.LessOrEqual(t, p.sent[0]-sent, 80, "probes each second, and acks")
	losing = false
	for range 100 {
		p.run(100 * ms)
		got += len(p.take(1))
	}
	require.Equal(t, 20, got)
	p.settled()
}

// TestBlockedSenderAsks: a blocked sender asks for a limit even if the receiver believes that
// its limit has arrived.
func TestBlockedSenderAsks(t *testing.T) {
	p := newPair(t, Config{ReliableBuffer: 1024})
	ch := p.open(0, Normal)
	for range 20 {
		p.send(0, ch, Reliable, pattern(32<<10, 1))
	}
	p.run(time10)
	p.ends[1].flow.advertised += 1 << 20
	p.take(1)
	p.ends[1].flow.updateDue = false
	require.False(t, p.ends[1].flow.updateDue)
	p.run(5 * time.Second)
	require.NotEmpty(t, p.take(1), "the probe brought the limit")
}

func TestPeerBeyondTheLimitCloses(t *testing.T) {
	r := newReceiver(t, Config{ReliableBuffer: 1024})
	r.must(wholeOf(flagOpen, 1, 0, "a"))
	var err error
	n := uint16(1)
	for ; err == nil; n++ {
		require.Less(t, n, uint16(400))
		err = r.receive(wholeOf(0, 1, n, string(make([]byte, 1000))))
	}
	requireCode(t, ReceiveLimitExceeded, err)
	require.Equal(t, uint16((256<<10-channelCost)/costOf(flagWhole, 1002, 1))+2, n)
	t.Log("# entries that are parked count as well")
	r = newReceiver(t, Config{ReliableBuffer: 1024})
	r.must(wholeOf(flagOpen, 1, 0, "a"))
	for n, err = 2, nil; err == nil; n++ {
		err = r.receive(wholeOf(0, 1, n, string(make([]byte, 1000))))
	}
	requireCode(t, ReceiveLimitExceeded, err)
}

// TestControlPassesAStoppedWorld: control messages are exempt from the limit, but have a limit
// of their own.
func TestControlPassesAStoppedWorld(t *testing.T) {
	p := newPair(t, Config{ReliableBuffer: 1024})
	ch := p.open(0, High)
	for range 10 {
		p.send(0, ch, Reliable, pattern(32<<10, 1))
	}
	p.run(time10)
	require.True(t, p.ends[0].flow.blocked)
	require.InDelta(t, time10.Seconds(), p.ends[0].BlockedFor(ch).Seconds(), 1)
	require.Zero(t, p.ends[0].BlockedFor(0), "control waits for nobody")
	p.ends[0].flow.raise(p.ends[0].flow.limit>>10 + 1)
	require.Zero(t, p.ends[0].BlockedFor(ch), "a limit has just come, though it is not enough")
	require.Zero(t, p.ends[0].BlockedFor(99), "no such channel")
	p.drop = func(int, []byte) bool { return true }
	p.run(time10)
	require.True(t, p.ends[0].flow.blocked)
	require.Zero(t, p.ends[0].BlockedFor(ch), "the path is silent")
	p.drop = nil
	p.run(time10)
	require.NotZero(t, p.ends[0].BlockedFor(ch))
	p.send(0, 0, Reliable, []byte("control"))
	p.send(0, ch, Unreliable, []byte("unreliable"))
	p.run(100 * ms)
	got := p.take(1)
	require.Equal(t, "unreliable", string(got[len(got)-1].Payload))
	require.Equal(t, "control", string(got[len(got)-2].Payload))
	p.run(time10)
	require.Less(t, p.ends[0].BlockedFor(ch), time10, "since the last limit")

	r := newReceiver(t, Config{})
	var err error
	n := uint16(0)
	for ; err == nil; n++ {
		require.Less(t, n, uint16(1000))
		err = r.receive(wholeOf(0, 0, n, string(make([]byte, 1000))))
	}
	requireCode(t, ReceiveLimitExceeded, err)
	require.Equal(t, uint16(maxControl/costOf(flagWhole, 1002, 1))+1, n)
}

func TestTakeLeavesWhatDoesNotFit(t *testing.T) {
	r := newReceiver(t, Config{})
	r.must(wholeOf(flagOpen, 1, 0, "a"), wholeOf(0, 1, 1, "b"), wholeOf(0, 0, 0, "c"), wholeOf(0, 1, 2, "d"))
	require.True(t, r.Wake())
	require.Equal(t, 4, r.Ready())
	into := make([]Message, 3)
	require.Equal(t, 3, r.Take(into))
	require.Equal(t, "abc", string(into[0].Payload)+string(into[1].Payload)+string(into[2].Payload))
	require.Equal(t, uint64(costOf(flagWhole, 2, 1)), r.flow.received-r.flow.consumed, "what was not taken is charged still")
	require.Zero(t, r.flow.control)
	checkConn(t, r.Conn)
	r.must(wholeOf(0, 1, 3, "e"))
	require.Equal(t, 2, r.Take(into))
	require.Equal(t, "de", string(into[0].Payload)+string(into[1].Payload))
	require.Zero(t, r.Take(into))
	require.Zero(t, r.Ready())
	require.Equal(t, r.flow.received, r.flow.consumed)
	checkConn(t, r.Conn)
}

// TestWaited: Waited is accurate to 16 µs, no matter how old the connection is, and never
// negative.
func TestWaited(t *testing.T) {
	for _, age := range []time.Duration{0, time.Hour, 19 * time.Hour, 1000 * time.Hour} {
		r := newOpened(t, 1)
		r.now = r.now.Add(age)
		r.must(wholeOf(0, 1, 1, "x"))
		m, ok := r.Next()
		require.True(t, ok)
		for _, wait := range []time.Duration{0, 50 * ms, 8 * time.Hour} {
			require.InDelta(t, wait, r.Waited(r.now.Add(wait), &m), float64(grain), "at %v", age)
		}
		require.Zero(t, r.Waited(r.now.Add(-ms), &m), "a clock that runs back")
	}
}

func TestTakeHandsOutLittleAtATime(t *testing.T) {
	r := newReceiver(t, Config{})
	r.must(wholeOf(flagOpen, 1, 0, ""))
	large := string(make([]byte, 1024))
	for n := range uint16(20) {
		r.must(wholeOf(0, 1, 1+n, large))
	}
	into := make([]Message, 30)
	require.Equal(t, 1+takeBytes/1024, r.Take(into))
	require.Equal(t, 20-takeBytes/1024, r.Take(into))
	for _, size := range []int{takeBytes + 1, 1} {
		r.deliver(r.channels.open[1], &Message{Payload: make([]byte, size)})
	}
	require.Equal(t, 1, r.Take(into), "one message is handed out whatever its size")
	require.Equal(t, 1, r.Take(into))
}

// A window is tight if a quarter of it is used within a round trip, which is reported once.
func TestTightWindow(t *testing.T) {
	var f flow
	f.init(minReceiveLimit)
	f.consume(time.Second, 100*ms, minReceiveLimit/8)
	f.consume(time.Second+101*ms, 100*ms, minReceiveLimit/8)
	require.False(t, f.tight, "that took longer")
	f.consume(time.Second+201*ms, 100*ms, minReceiveLimit/8)
	require.True(t, f.tight)
	f.grow(2 * minReceiveLimit)
	require.False(t, f.tight)
}

// TestLimitNeverStopsAMessageInTheMiddle: long messages on many channels at once exceed the
// limit. If each got a part of it, none would become whole and the limit would never rise. Bulk
// doesn't hold up play.
func TestLimitNeverStopsAMessageInTheMiddle(t *testing.T) {
	p := newPair(t, Config{})
	bulk, got := make(map[uint64]int), 0
	for range 16 {
		ch := p.open(0, Bulk)
		for range 3 {
			p.send(0, ch, Reliable, pattern(60_000, 1))
		}
		bulk[ch] = 0
	}
	p.run(200 * ms)
	play := p.open(0, Normal)
	p.send(0, play, Reliable, pattern(1000, 1))
	p.run(100 * ms)
	for range 200 {
		for _, m := range p.take(1) {
			if m.Channel == play {
				require.Less(t, got, 16*3, "it does not wait for all bulk")
			}
			got++
		}
		p.run(20 * ms)
	}
	require.Equal(t, 16*3+1, got)
}

// TestReceiveLimitOnlyRises: a limit below the present one has no effect, not even a negative one.
func TestReceiveLimitOnlyRises(t *testing.T) {
	c, err := NewConn(epoch, Config{})
	require.NoError(t, err)
	for _, limit := range []int{-1, math.MinInt, 0, 1000} {
		c.SetReceiveLimit(limit)
		require.EqualValues(t, minReceiveLimit, c.flow.capacity)
	}
	c.SetReceiveLimit(1 << 20)
	require.EqualValues(t, 1<<20, c.flow.capacity)
}
