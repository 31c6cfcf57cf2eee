package bunch

import (
	"github.com/quivernet/quiver/internal/recovery"
	"github.com/quivernet/quiver/internal/testkit"

	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// arrived records the arrival of packets, each of which is ack-eliciting.
func (r *received) arrived(now time.Duration, numbers ...uint64) {
	for _, n := range numbers {
		gap := n != r.Next
		if r.add(now, n) {
			r.scheduleAck(now, 40*ms, gap, false)
		}
	}
}

// acked returns the numbers that an ack reports, newest first.
func ackedNumbers(t testing.TB, b []byte) (numbers []uint64) {
	var h packetHeader
	_, err := parsePacketHeader(append([]byte{Protocol, flagAcks, 0, 0, 0, 0}, b...), &h)
	require.NoError(t, err)
	high := uint64(h.largest) + 1
	for i, run := range h.runs[:h.nruns] {
		for n := high; i%2 == 0 && n > high-run; n-- {
			numbers = append(numbers, n-1)
		}
		high -= run
	}
	return numbers
}

func TestReceivedRemembers(t *testing.T) {
	var r received
	require.True(t, r.add(0, 0))
	require.False(t, r.add(0, 0))
	require.True(t, r.add(0, 3))
	require.Equal(t, uint64(2), r.missing)
	require.True(t, r.add(0, 1))
	require.False(t, r.add(0, 1))
	require.Equal(t, uint64(1), r.missing)

	t.Logf("# a jump forgets what is %d back", seenWindow)
	require.Equal(t, 2*maxHistory, seenWindow)
	require.True(t, r.add(0, seenWindow+3))
	require.False(t, r.add(0, 3), "too old to tell")
	require.True(t, r.add(0, 4), "the oldest that can be told")
	require.False(t, r.add(0, 4))
	require.True(t, r.add(0, 5_000_000_000), "numbers wider than 32 bits")
	require.False(t, r.add(0, seenWindow+3))
}

func TestAcksName(t *testing.T) {
	for _, c := range []struct {
		name string
		came []uint64
		runs string
	}{
		{"one", []uint64{0}, "00000000 0000 01 01"},
		{"some", []uint64{0, 1, 2}, "00000002 0000 01 03"},
		{"the first is missing", []uint64{1, 2}, "00000002 0000 01 02"}, // nothing below the floor is told
		{"gap", []uint64{0, 1, 3}, "00000003 0000 03 01 01 02"},
		{"late", []uint64{0, 3, 1}, "00000003 0000 03 01 01 02"},
		{"two gaps", []uint64{0, 2, 3, 7}, "00000007 0000 05 01 03 02 01 01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r received
			r.arrived(0, c.came...)
			b, covered := r.appendAcks(nil, 0, 100)
			require.Equal(t, unhex(t, c.runs), b)
			require.True(t, covered)
		})
	}
}

func TestAckDelayIsTold(t *testing.T) {
	var r received
	r.arrived(5*ms, 0)
	b, _ := r.appendAcks(nil, 5*ms+64*100*time.Microsecond, 100)
	require.Equal(t, unhex(t, "00000000 0064 01 01"), b)
	b, _ = r.appendAcks(nil, time.Hour, 100)
	require.Equal(t, unhex(t, "00000000 ffff 01 01"), b)
}

func TestAcksTruncate(t *testing.T) {
	var r received
	for n := uint64(0); n < 400; n += 2 {
		r.arrived(0, n)
	}
	b, covered := r.appendAcks(nil, 0, 1000)
	require.False(t, covered)
	require.Equal(t, byte(63), b[6], "an odd number of runs, at most 64")
	require.Len(t, ackedNumbers(t, b), 32)

	b, covered = r.appendAcks(nil, 0, maxHeaderBytes-packetHeaderBytes-4)
	require.False(t, covered)
	require.LessOrEqual(t, len(b), maxHeaderBytes-packetHeaderBytes-4)
	require.Len(t, ackedNumbers(t, b), 18, "17 gaps beside an entry")
}

func TestAckFloor(t *testing.T) {
	var r received
	r.arrived(0, 0, 1, 3, 4)
	r.floor = 5 // the peer knows all of that
	r.arrived(0, 5, 7)
	b, covered := r.appendAcks(nil, 0, 100)
	require.True(t, covered)
	require.Equal(t, []uint64{7, 5}, ackedNumbers(t, b))

	t.Log("# a late one is told though it lies below the floor")
	r.arrived(0, 2)
	b, _ = r.appendAcks(nil, 0, 100)
	require.Equal(t, []uint64{7, 5, 4, 3, 2}, ackedNumbers(t, b))

	t.Log("# what is too old is not told: its place in the window is that of a new one")
	r = received{}
	r.arrived(0, 9, seenWindow+10)
	b, covered = r.appendAcks(nil, 0, 100)
	require.True(t, covered)
	require.Equal(t, []uint64{seenWindow + 10}, ackedNumbers(t, b))
}

// TestAcksTellOfTheLate: an ack has room for few gaps. If packets arrive late, after hundreds
// of others, there may be more gaps above them than that. Every second ack therefore reports
// the late ones.
func TestAcksTellOfTheLate(t *testing.T) {
	const late, room = 300, maxHeaderBytes - packetHeaderBytes // of every other packet, beside an entry
	var r received
	told := map[uint64]bool{}
	for n := uint64(0); n < 2000; n += 2 {
		r.arrived(0, n)
		if n > late {
			r.arrived(0, n-late-1)
		}
		if n%8 == 0 {
			r.tell(t, told, room)
		}
	}
	for n := range uint64(2000 - late - 32) {
		require.True(t, told[n], n)
	}
}

// TestAcksTellOfAClump: if packets arrive at once with more gaps than fit into an ack, the next
// acks report the rest, even if more packets arrive.
func TestAcksTellOfAClump(t *testing.T) {
	var r received
	told := map[uint64]bool{}
	for n := uint64(0); n < 1000; n += 2 {
		r.arrived(0, n)
	}
	for n := uint64(1000); n < 1100; n++ {
		r.arrived(0, n)
		r.tell(t, told, 100)
	}
	for n := uint64(0); n < 1000; n += 2 {
		require.True(t, told[n], n)
	}
	require.Len(t, told, 600)
}

// TestEverySecondAckTellsOfTheNewest: however many numbers were left out, the peer waits for
// the newest ones.
func TestEverySecondAckTellsOfTheNewest(t *testing.T) {
	var r received
	for n := uint64(0); n < 1000; n += 2 {
		r.arrived(0, n)
	}
	for n := range 8 {
		b, _ := r.appendAcks(nil, 0, 100)
		require.Equal(t, n%2 == 0, slices.Contains(ackedNumbers(t, b), 990), "ack %d", n)
	}
}

// TestAcksOfAClumpThatFills: numbers that didn't fit into an ack may become part of the next
// ack's first run.
func TestAcksOfAClumpThatFills(t *testing.T) {
	var r received
	for n := uint64(0); n < 1000; n += 2 {
		r.arrived(0, n)
	}
	_, covered := r.appendAcks(nil, 0, 100)
	require.False(t, covered)
	require.False(t, r.omitted.empty())
	for n := uint64(1); n < 1000; n += 2 {
		r.arrived(0, n)
	}
	b, _ := r.appendAcks(nil, 0, 100)
	require.Len(t, ackedNumbers(t, b), 1000)
	require.True(t, r.omitted.empty())
}

// tell records the numbers that an ack reports.
func (r *received) tell(t *testing.T, told map[uint64]bool, room int) {
	b, covered := r.appendAcks(nil, 0, room)
	require.LessOrEqual(t, len(b), room)
	require.False(t, covered && !r.omitted.empty())
	for _, n := range ackedNumbers(t, b) {
		require.True(t, r.Has(n), n)
		told[n] = true
	}
}

func TestAcksAgainstAModel(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	for range 200 {
		var r received
		came := map[uint64]bool{}
		first := random.Uint64N(1 << 33)
		r.Next, r.floor = first, first
		for range 1 + random.IntN(300) {
			n := r.Next + uint64(random.IntN(6))
			if random.IntN(4) == 0 {
				n = r.Next - min(r.Next-first, random.Uint64N(100))
			}
			require.Equal(t, !came[n], r.add(0, n), n)
			came[n] = true
		}
		missing := uint64(0)
		for n := first; n < r.Next; n++ {
			if !came[n] {
				missing++
			}
		}
		require.Equal(t, missing, r.missing)
		b, covered := r.appendAcks(nil, 0, 7+random.IntN(200)+4)
		told := map[uint64]bool{}
		var h packetHeader
		_, err := parsePacketHeader(append([]byte{Protocol, flagAcks, 0, 0, 0, 0}, b...), &h)
		require.NoError(t, err)
		high := recovery.Number(r.Next, uint64(h.largest), 32) + 1
		for i, run := range h.runs[:h.nruns] {
			for n := high; i%2 == 0 && n > high-run; n-- {
				require.True(t, came[n-1], "%d did not come", n-1)
				told[n-1] = true
			}
			high -= run
		}
		if covered {
			require.Len(t, told, len(came))
		}
	}
}

func TestAckTimer(t *testing.T) {
	var r received
	t.Log("# the first waits for the delay")
	r.arrived(0, 0)
	require.False(t, 39*ms >= r.ackAt())
	require.True(t, 40*ms >= r.ackAt())
	t.Log("# later ones do not put it off")
	r.arrived(10*ms, 1, 2, 3, 4, 5, 6)
	require.Equal(t, 40*ms, r.deadline)
	require.False(t, r.urgent)
	t.Log("# the 8th brings it at once")
	r.arrived(11*ms, 7)
	require.True(t, 11*ms >= r.ackAt())
	r.ackSent(11 * ms)
	require.False(t, time.Hour >= r.ackAt())

	t.Log("# a gap asks for it at once")
	r.arrived(20*ms, 9)
	require.True(t, 20*ms >= r.ackAt())
	require.True(t, r.urgent)
	r.ackSent(20 * ms)
	t.Log("# but at most once a millisecond")
	r.arrived(20*ms+100*time.Microsecond, 11)
	require.False(t, 20*ms+999*time.Microsecond >= r.ackAt())
	require.True(t, 21*ms >= r.ackAt())
	r.ackSent(21 * ms)
	t.Log("# a filled gap is news as well")
	r.arrived(30*ms, 8)
	require.True(t, 30*ms >= r.ackAt())
	require.True(t, r.urgent)
	r.ackSent(30 * ms)

	t.Log("# and the peer may ask for it now")
	r.add(40*ms, 12)
	r.scheduleAck(40*ms, 40*ms, false, true)
	require.True(t, 40*ms >= r.ackAt())
	require.True(t, r.urgent)
}

// TestNumbersThatLeap: however far the numbers leap, received numbers are remembered, and no
// others. A peer that skips 8,192 numbers with each packet mustn't make us clear as many bits
// one by one, which would take 30 µs for a packet of ten bytes.
func TestNumbersThatLeap(t *testing.T) {
	random := testkit.Rand(t)
	var r received
	came := make(map[uint64]bool)
	next := uint64(0)
	for range 3000 {
		n := next + uint64(random.IntN([]int{2, 70, 300, seenWindow + 200}[random.IntN(4)]))
		if random.IntN(4) == 0 && next > 500 {
			n = next - uint64(random.IntN(500))
		}
		require.Equal(t, !came[n], r.add(0, n), n)
		came[n] = true
		next = max(next, n+1)
		for range 20 {
			n := next - min(next, 1+uint64(random.IntN(seenWindow)))
			require.Equal(t, came[n], r.Has(n), n)
		}
	}
}

// TestPacketThatIsGivenUpTellsNothing: if a packet turns out to have no bunches, it isn't sent,
// so its acks don't count as reported.
func TestPacketThatIsGivenUpTellsNothing(t *testing.T) {
	l := newLossTest(t, Config{})
	l.flow.limit = 0
	require.NoError(t, l.Send(l.channel, Reliable, make([]byte, 100)))
	require.NoError(t, l.Receive(l.at, appendPacketHeader(nil, &packetHeader{flags: flagPing})))
	before := l.received.unreported
	require.Equal(t, span{0, 1}, before.inOrder)
	require.Zero(t, l.packets())
	require.Equal(t, before, l.received.unreported)
}
