package stream

import (
	"github.com/quivernet/quiver/internal/testkit"

	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var errOverflow = errors.New("ReliableBufferOverflow")

// fakeChannel is a channel's reliable buffer with Unreal's arithmetic: overflow iff n + N >= R.
type fakeChannel struct {
	slots  int
	out    int
	peak   int
	queued time.Duration
	watch  []string
}

func (c *fakeChannel) Reliable() (out, slots int) { return c.out, c.slots }
func (c *fakeChannel) QueueTime() time.Duration   { return c.queued }
func (c *fakeChannel) Watch(out int, queued time.Duration) {
	c.watch = append(c.watch, fmt.Sprint(out, " ", queued))
}

func (c *fakeChannel) send(entries int) error {
	if c.out+entries >= c.slots {
		return errOverflow
	}
	c.out += entries
	c.peak = max(c.peak, c.out)
	return nil
}

func (c *fakeChannel) ack(entries int) { c.out -= min(c.out, entries) }

// fakePump sends RPCs of so many entries each over ch and writes down their order.
func fakePump(t *testing.T, ch *fakeChannel, gate Gate, rpcs, entries int) (*Pump, *[]int) {
	var order []int
	emit := func(i int) error {
		order = append(order, i)
		return ch.send(entries)
	}
	end := func() error {
		order = append(order, -1)
		return ch.send(1)
	}
	p, err := NewPump(ch, gate, rpcs, entries, emit, end)
	require.NoError(t, err)
	return p, &order
}

// 952 bytes an entry are Unreal's, 1,100 ours.
func TestPeakOfOutstandingEntries(t *testing.T) {
	tests := []struct {
		name           string
		slots, entries int
		burst          int // RPCs into an empty buffer
		peak           int // after the first burst
		worst          int // when acks leave the count at the limit less one
	}{
		{"article, 32 KiB of 952", 256, 35, 4, 140, 162},
		{"current Unreal, 32 KiB of 952", 512, 35, 8, 280, 290},
		{"article, 64 KiB of 952", 256, 69, 2, 138, 196},
		{"current Unreal, 64 KiB of 952", 512, 69, 4, 276, 324},
		{"ours, 32 KiB of 1,100", 256, 30, 5, 150, 157},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ch := &fakeChannel{slots: test.slots}
			p, order := fakePump(t, ch, Gate{}, 100, test.entries)

			done, err := p.Tick()
			require.NoError(t, err)
			require.False(t, done)
			require.Len(t, *order, test.burst)
			require.Equal(t, test.peak, ch.peak)

			ch.out = test.slots/2 - 1
			_, err = p.Tick()
			require.NoError(t, err)
			require.Equal(t, test.worst, ch.peak)
			require.Equal(t, test.slots/2-1+test.entries, ch.peak)
			require.Less(t, ch.peak, test.slots)
		})
	}
}

func TestNaiveLoopOverflows(t *testing.T) {
	for slots, fatal := range map[int]int{256: 8, 512: 15} {
		ch := &fakeChannel{slots: slots}
		sent := 0
		for ch.send(35) == nil {
			sent++
		}
		require.Equal(t, fatal, sent+1, "the 32 KiB RPC that closes the connection at R = %d", slots)
	}
}

func TestPumpNeverOverflows(t *testing.T) {
	rng := testkit.Rand(t)
	for range 300 {
		ch := &fakeChannel{slots: 1 << (2 + rng.IntN(8))}
		gate := Gate{Share: 0.05 + 0.9*rng.Float64(), QueueTime: -1}
		entries := 1 + rng.IntN(ch.slots)
		rpcs := rng.IntN(50)
		if gate.Check(ch.slots, entries) != nil {
			continue
		}
		p, order := fakePump(t, ch, gate, rpcs, entries)
		for done := false; !done; ch.ack(1 + rng.IntN(entries+1)) {
			var err error
			done, err = p.Tick()
			require.NoError(t, err)
		}
		require.LessOrEqual(t, ch.peak, gate.limit(ch.slots)-1+entries)
		require.Len(t, *order, rpcs+1)
		for i, got := range (*order)[:rpcs] {
			require.Equal(t, i, got)
		}
		require.Equal(t, -1, (*order)[rpcs])
	}
}

// Check refuses exactly the sizes that could overflow.
func TestGateCheckIsExact(t *testing.T) {
	for _, slots := range []int{4, 64, 256, 512} {
		for entries := 1; entries <= slots; entries++ {
			ch := &fakeChannel{slots: slots, out: slots/2 - 1}
			require.Equal(t, ch.send(entries) == nil, Gate{}.Check(slots, entries) == nil, "R = %d, N = %d", slots, entries)
		}
	}
	require.EqualError(t, Gate{}.Check(256, 129), "stream: RPC may have 129 entries; the limit is 128 with a Share of 0.5: "+
		"lower MaxBytesPerRPC or Share, or raise ReliableBuffer")
	require.ErrorContains(t, Gate{Share: 1}.Check(256, 1), "Share is 1;")
	require.ErrorContains(t, Gate{Share: -0.5}.Check(256, 1), "Share is -0.5;")
	require.ErrorContains(t, Gate{Share: 0.1}.Check(4, 1), "less than one entry")
	require.ErrorContains(t, Gate{}.Check(0, 1), "less than one entry")
	err := Gate{}.Check(256, math.MaxInt)
	require.ErrorContains(t, err, "the limit is 128")
	require.NotContains(t, err.Error(), " -")
}

func TestNewPumpChecks(t *testing.T) {
	_, err := NewPump(&fakeChannel{slots: 32}, Gate{}, 1, 30, nil, nil)
	require.ErrorContains(t, err, "RPC may have 30 entries; the limit is 16")
	_, err = NewPump(&fakeChannel{slots: 32}, Gate{}, 1, 0, nil, nil)
	require.ErrorContains(t, err, "RPC has 0 entries")
	_, err = NewPump(&fakeChannel{slots: 32}, Gate{}, -1, 1, nil, func() error { return nil })
	require.ErrorContains(t, err, "number of RPCs is -1", "it would say that all was sent, without its closing RPC")
}

func TestClosingRPCIsSentOnceAndUnderTheGate(t *testing.T) {
	ch := &fakeChannel{slots: 8}
	p, order := fakePump(t, ch, Gate{}, 2, 2)

	t.Log("# both RPCs fill the share; the closing one waits")
	done, err := p.Tick()
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, []int{0, 1}, *order)
	require.Equal(t, 2, p.Sent())
	done, _ = p.Tick()
	require.False(t, done)

	t.Log("# an ack lets it out, and it is not repeated")
	ch.ack(1)
	for range 3 {
		done, err = p.Tick()
		require.NoError(t, err)
		require.True(t, done)
		ch.ack(4)
	}
	require.Equal(t, []int{0, 1, -1}, *order)
}

func TestPumpOfNothingSendsItsEnd(t *testing.T) {
	ch := &fakeChannel{slots: 256}
	p, order := fakePump(t, ch, Gate{}, 0, 30)
	done, err := p.Tick()
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, []int{-1}, *order)

	p, err = NewPump(ch, Gate{}, 0, 30, nil, nil)
	require.NoError(t, err)
	done, err = p.Tick()
	require.NoError(t, err)
	require.True(t, done)
}

func TestQueueGate(t *testing.T) {
	ch := &fakeChannel{slots: 256}
	p, order := fakePump(t, ch, Gate{}, 10, 30)

	t.Log("# a queue in front of an empty buffer: one RPC may always be out")
	ch.queued = time.Second
	_, err := p.Tick()
	require.NoError(t, err)
	require.Len(t, *order, 1)
	require.Equal(t, []string{"128 20ms"}, ch.watch, "the gate has its own wake-up")

	t.Log("# while it is out, the queue closes the gate; 20 ms is still open")
	ch.ack(29)
	_, _ = p.Tick()
	require.Len(t, *order, 1)
	ch.queued = 20*time.Millisecond + 1
	_, _ = p.Tick()
	require.Len(t, *order, 1)
	ch.queued = 20 * time.Millisecond
	_, _ = p.Tick()
	require.Len(t, *order, 6)

	t.Log("# a gate of entries alone does not look at the queue")
	ch = &fakeChannel{slots: 256, queued: time.Hour}
	p, order = fakePump(t, ch, Gate{QueueTime: -1}, 10, 30)
	_, _ = p.Tick()
	require.Len(t, *order, 5)
	require.Equal(t, []string{fmt.Sprint("128 ", time.Duration(math.MaxInt64))}, ch.watch)
}

func TestPumpEndsAtTheFirstError(t *testing.T) {
	ch := &fakeChannel{slots: 256}
	calls, boom := 0, errors.New("boom")
	p, err := NewPump(ch, Gate{}, 3, 1, func(int) error {
		if calls++; calls == 2 {
			return boom
		}
		return ch.send(1)
	}, func() error { return ch.send(1) })
	require.NoError(t, err)
	for range 2 {
		done, err := p.Tick()
		require.False(t, done)
		require.ErrorIs(t, err, boom)
	}
	require.Equal(t, 2, calls)
	require.Equal(t, 1, p.Sent())
}

// A channel that counts nothing would never close the gate: the whole content
// would be sent in one tick.
func TestPumpRefusesAChannelThatDoesNotCount(t *testing.T) {
	calls := 0
	p, err := NewPump(&fakeChannel{slots: 256}, Gate{}, 100, 1, func(int) error { calls++; return nil }, nil)
	require.NoError(t, err)
	_, err = p.Tick()
	require.ErrorContains(t, err, "has no outstanding entry")
	require.Equal(t, 1, calls)
}

// plainChannel has the two results of Reliable and nothing else.
type plainChannel struct{ out int }

func (c *plainChannel) Reliable() (out, slots int) { return c.out, 8 }

func TestPumpOverAPlainChannel(t *testing.T) {
	ch := &plainChannel{}
	p, err := NewPump(ch, Gate{}, 5, 1, func(int) error { ch.out++; return nil }, nil)
	require.NoError(t, err)
	done, err := p.Tick()
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, 4, p.Sent())
	ch.out = 0
	done, err = p.Tick()
	require.NoError(t, err)
	require.True(t, done)
}
