package bunch

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

func TestAfterHoldsUntilAllIsAcked(t *testing.T) {
	p := newPair(t, Config{})
	first, second := p.open(1, Normal), p.open(1, High)
	p.send(1, first, Reliable, []byte("old"))
	require.ErrorContains(t, p.ends[1].After(second, first), "not closed")
	require.NoError(t, p.ends[1].Close(first, []byte("end of old")))
	require.NoError(t, p.ends[1].After(second, first))
	require.ErrorContains(t, p.ends[1].After(p.open(1, Normal), first), "already does")
	p.send(1, second, Reliable, []byte("new"))
	p.send(1, second, Unreliable, []byte("newer"))
	p.run(40 * time.Millisecond)
	require.Len(t, p.take(0), 2, "the old one")
	p.run(time.Second)
	require.Len(t, p.take(0), 2)
	p.settled()

	third := p.open(1, Normal)
	require.NoError(t, p.ends[1].Close(second, nil))
	p.run(time.Second)
	require.NoError(t, p.ends[1].After(third, second), "nothing of it waits any more")
	p.send(1, third, Reliable, []byte("newest"))
	require.ErrorContains(t, p.ends[1].After(third, p.open(1, Normal)), "not closed")
	p.run(time.Second)
	require.Len(t, p.take(0), 2, "the close of the second, the first of the third")
}

// TestAfterWithoutAnOrder: After refuses what it can't order, instead of doing nothing.
func TestAfterWithoutAnOrder(t *testing.T) {
	p := newPair(t, Config{})
	c := p.ends[1]
	ch := p.open(1, Normal)
	for _, earlier := range []uint64{ch + 2, 99, 1 << 40} {
		require.EqualError(t, c.After(ch, earlier),
			fmt.Sprintf("bunch: channel %d cannot come after channel %d, which was never opened", ch, earlier))
	}
	require.ErrorContains(t, c.After(ch, 0), "channel 0 cannot come before or after another")
	require.ErrorContains(t, c.After(0, ch), "channel 0 cannot come before or after another")
	require.ErrorContains(t, c.After(ch, ch), "which is not closed")
	p.send(1, ch, Reliable, []byte("x"))
	p.run(time.Second)
	require.Len(t, p.take(0), 1)
}

// TestAfterOne: only one channel may come after another. A second one would be
// forgotten when the first one is released.
func TestAfterOne(t *testing.T) {
	p := newPair(t, Config{})
	first, second, third := p.open(1, Normal), p.open(1, Normal), p.open(1, Normal)
	p.send(1, first, Reliable, []byte("first"))
	p.send(1, second, Reliable, []byte("second"))
	require.NoError(t, p.ends[1].Close(first, nil))
	require.NoError(t, p.ends[1].Close(second, nil))
	require.NoError(t, p.ends[1].After(third, first))
	require.ErrorContains(t, p.ends[1].After(third, second), fmt.Sprintf("it already comes after channel %d", first))
	p.send(1, third, Reliable, []byte("third"))
	p.run(time.Second)
	require.Len(t, p.take(0), 5)
	p.settled()
}

// TestAfterOverBadPaths opens and closes channels that come after each other, with loss and
// packets out of order: the peer never has two of them at once, and all messages arrive in order.
func TestAfterOverBadPaths(t *testing.T) {
	random := testkit.Rand(t)
	for range 20 {
		p := newPair(t, Config{})
		p.drop = func(int, []byte) bool {
			p.delay = time.Duration(5+random.IntN(60)) * time.Millisecond
			return random.IntN(4) == 0
		}
		var want []string
		last := uint64(0)
		for i := range 30 {
			ch := p.open(1, Priority(random.IntN(3)))
			if last > 0 {
				require.NoError(t, p.ends[1].After(ch, last))
			}
			for j := range random.IntN(5) {
				want = append(want, fmt.Sprintf("%d.%d", i, j))
				p.send(1, ch, Reliable, []byte(want[len(want)-1]))
			}
			want = append(want, fmt.Sprint("end of ", i))
			require.NoError(t, p.ends[1].Close(ch, []byte(want[len(want)-1])))
			last = ch
			p.run(time.Duration(random.IntN(30)) * time.Millisecond)
		}
		p.run(time.Minute)
		var got []string
		for _, m := range p.take(0) {
			got = append(got, string(m.Payload))
		}
		require.Equal(t, want, got)
		p.settled()
	}
}
