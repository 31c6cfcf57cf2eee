package link

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seed returns a random seed, or the one in QUIVER_SEED, and prints it when the test fails.
func seed(t *testing.T) *rand.Rand {
	n := rand.Uint64()
	if s := os.Getenv("QUIVER_SEED"); s != "" {
		var err error
		n, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("QUIVER_SEED=%d", n)
	return rand.New(rand.NewPCG(n, 0))
}

func TestRingKeepsOrder(t *testing.T) {
	random := seed(t)
	var r ring
	var pushed, popped uint32
	for range 2000 {
		for range random.IntN(40) {
			r.push(binary.BigEndian.AppendUint32(nil, pushed))
			pushed++
		}
		batch := make([][]byte, random.IntN(40)+1)
		for _, d := range batch[:r.pop(batch)] {
			require.Equal(t, popped, binary.BigEndian.Uint32(d))
			popped++
		}
		require.Equal(t, r.empty(), pushed == popped)
	}
	require.Zero(t, r.dropped.Load())
}

func TestRingIsBoundedInBytes(t *testing.T) {
	for _, size := range []int{0, 1, 1200, 1452, RingBytes} {
		var r ring
		fit := RingBytes / (size + slotBytes)
		for range fit + 5 {
			r.push(make([]byte, size))
		}
		require.Equal(t, int64(fit), r.count.Load(), "size %d", size)
		require.Equal(t, uint64(5), r.dropped.Load(), "size %d", size)
		require.LessOrEqual(t, r.bytes, RingBytes)
	}
}

func TestEmptyRingHoldsLittle(t *testing.T) {
	var r ring
	batch := make([][]byte, 100)
	require.Zero(t, r.pop(batch))
	require.Zero(t, r.slots.Cap())
	for range 10 {
		r.push([]byte{1})
	}
	require.Equal(t, 10, r.pop(batch))
	require.Equal(t, 16, r.slots.Cap())
	for range 300 {
		r.push([]byte{1})
	}
	for r.pop(batch) > 0 {
	}
	require.Zero(t, r.slots.Cap())
	require.Zero(t, r.bytes)
}

func TestBurstShrinksWithLossAndRecovers(t *testing.T) {
	b := burst{size: maxBurst}
	steps := []struct {
		lost uint64
		size int
	}{{0, 96}, {1, 48}, {9, 32}, {10, 32}, {10, 40}, {10, 48}, {11, 32}}
	for i, step := range steps {
		for n := 1; !b.add(); n++ {
			require.Less(t, n, 100)
		}
		b.next(step.lost)
		require.Equal(t, step.size, b.size, "step %d", i)
		require.Equal(t, step.size < maxBurst, b.short())
	}
}

func TestSleepIsRoundedUp(t *testing.T) {
	now := time.Unix(0, 0)
	for _, c := range []struct{ wait, want time.Duration }{
		{-time.Hour, overdue},
		{0, overdue},
		{1, grain},
		{grain, grain},
		{grain + 1, 2 * grain},
		{time.Second - 1, time.Second},
	} {
		require.Equal(t, c.want, sleepUntil(now, now.Add(c.wait)), "%v", c.wait)
	}
}

func TestHoleHoldIsBounded(t *testing.T) {
	var m mtu
	m.update(1404)
	now := time.Unix(0, 0)
	var last time.Duration
	for range 20 {
		last = m.blackHole(now)
		now = now.Add(last)
	}
	require.Equal(t, maxHoleHold, last)
}
