package bunch

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestRepairsUnderRandomFates: whatever is lost, late, doubled, taken back or sent over another
// carrier, with repair bunches all messages arrive as without them, and the accounts agree.
func TestRepairsUnderRandomFates(t *testing.T) {
	seed := testkit.Seed(t)
	restored := uint64(0)
	for i := range testkit.Brief(20, 150) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := newFatedRun(t, rand.New(rand.NewPCG(seed, uint64(i))))
			for range 20 + r.random.IntN(60) {
				r.act()
			}
			r.finish()
			restored += r.ends[1].Stats().EntriesRestored
		})
	}
	t.Logf("%d entries restored", restored)
	require.NotZero(t, restored)
}

// fatedRun is a pair of which one end sends long messages, mostly over a
// carrier that reports fates.
type fatedRun struct {
	*pair
	random   *rand.Rand
	channels []uint64
	want     map[uint64][]string // by channel, in order
	any      map[string]bool     // unordered
	epoch    uint32
	serial   uint32
	loss     float64
	jitter   time.Duration
}

func newFatedRun(t testing.TB, random *rand.Rand) *fatedRun {
	r := &fatedRun{random: random, want: map[uint64][]string{}, any: map[string]bool{}}
	r.pair = newPair(t, Config{ReliableBuffer: 64 << random.IntN(3), Overflow: OverflowError, ReceiveLimit: 256 << (10 + random.IntN(3)), Random: dice(random.Uint64())})
	r.loss = []float64{0.01, 0.05, 0.2}[random.IntN(3)]
	r.jitter = time.Duration(random.IntN(2)*random.IntN(30)) * time.Millisecond
	r.max = minDatagram + random.IntN(600)
	for range 1 + random.IntN(3) {
		ch := r.open(0, Bulk)
		r.send(0, ch, Reliable, nil)
		r.channels = append(r.channels, ch)
	}
	r.pair.run(time.Second)
	r.take(1)
	if random.IntN(2) == 0 {
		r.near(1<<16 - uint64(random.IntN(200)))
	}
	r.move(0, &r.epoch, true)
	r.drop = func(from int, packet []byte) bool {
		r.delay = 25*time.Millisecond + time.Duration(random.Int64N(int64(r.jitter+1)))
		if random.IntN(20) == 0 {
			r.order++
			r.wire = append(r.wire, flight{r.now.Add(r.delay + r.jitter), r.order, 1 - from, append([]byte(nil), packet...)})
		}
		return random.Float64() < r.loss
	}
	return r
}

// near makes the next entries have these sequences, so that those after them begin at 0 again.
func (r *fatedRun) near(next uint64) {
	for _, number := range r.channels {
		from, to := r.ends[0].channels.find(number), r.ends[1].channels.find(number)
		require.Zero(r.t, from.outstanding())
		from.first, from.next, from.firstUnsent, to.expected = next, next, next, next
	}
}

// act does one of the things that may happen.
func (r *fatedRun) act() {
	c, ch := r.ends[0], r.channels[r.random.IntN(len(r.channels))]
	switch n := r.random.IntN(20); {
	case n < 8:
		r.sendOne(ch)
	case n < 14:
		r.pair.run(time.Duration(r.random.IntN(60)) * time.Millisecond)
	case n < 15:
		r.pair.run(time.Duration(r.random.IntN(3)) * 10 * time.Second) // memory is trimmed
	case n < 16:
		r.move(0, &r.epoch, r.random.IntN(3) > 0)
	case n < 17:
		_ = c.SetPriority(ch, Priority(r.random.IntN(2)*int(Bulk)))
	case n < 18:
		if _, number, ok := c.AppendPacket(r.now, nil, r.max); ok {
			c.Unsent(number)
		}
	case n < 19:
		path := c.path.Path
		path.More = !path.More
		c.SetPath(r.now, path)
	case len(r.verdicts) > 0:
		r.verdicts[r.random.IntN(len(r.verdicts))].arrived = false // wrongly
	}
	r.fetch()
}

func (r *fatedRun) sendOne(ch uint64) {
	r.serial++
	payload := pattern(4+r.random.IntN(r.random.IntN(MaxBunchBytes-4)+1), int(r.serial))
	binary.BigEndian.PutUint32(payload, r.serial)
	d := Delivery(r.random.IntN(2))
	if err := r.ends[0].Send(ch, d, payload); err != nil {
		require.ErrorIs(r.t, err, ErrReliableBufferFull)
		return
	}
	if d == Reliable {
		r.want[ch] = append(r.want[ch], string(payload))
	} else {
		r.any[string(payload)] = true
	}
}

func (r *fatedRun) fetch() {
	for _, m := range r.take(1) {
		got := string(m.Payload)
		if m.Delivery == ReliableUnordered {
			require.True(r.t, r.any[got], "an extra message of %d bytes", len(got))
			delete(r.any, got)
			continue
		}
		require.NotEmpty(r.t, r.want[m.Channel])
		require.True(r.t, r.want[m.Channel][0] == got, "channel %d: %d bytes, not the %d bytes sent", m.Channel, len(got), len(r.want[m.Channel][0]))
		r.want[m.Channel] = r.want[m.Channel][1:]
	}
}

// finish lets everything arrive, with some more losses, and asserts that nothing is left.
func (r *fatedRun) finish() {
	for end := r.now.Add(time.Hour); !r.ends[0].Drained() && r.now.Before(end); r.fetch() {
		r.pair.run(100 * time.Millisecond)
	}
	r.drop = nil
	r.pair.run(time.Minute)
	r.fetch()
	require.Empty(r.t, r.any)
	for ch, left := range r.want {
		require.Empty(r.t, left, "channel %d", ch)
	}
	require.Zero(r.t, r.ends[0].repairs.runs.len())
	require.Nil(r.t, r.ends[0].repairs.memory)
	require.Zero(r.t, r.ends[1].restorer.held)
	r.settled()
}
