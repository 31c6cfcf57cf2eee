package fragment

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// cross sends blocks of a size over a path, one every gap, checks what arrives,
// and returns how many did.
func cross(t testing.TB, path netsim.Config, cfg Config, size, blocks int, gap time.Duration) (arrived int, stats Stats) {
	link, r := netsim.NewLink(path), newReassembler(t, cfg)
	block := content(size, 0)
	take := func(until time.Time) {
		for at, ok := link.NextTimeout(); ok && !at.After(until); at, ok = link.NextTimeout() {
			packet, _ := link.Deliver(at)
			b, ok, _ := r.Receive(at, packet)
			if !ok {
				continue
			}
			arrived++
			block[0], block[size-1] = byte(b.Sequence), byte(b.Sequence>>8)
			require.True(t, bytes.Equal(block, b.Data), "block %d", b.Sequence)
		}
	}
	now := epoch
	for n := range blocks {
		block[0], block[size-1] = byte(n), byte(n>>8)
		parts, err := Split(uint16(n), block)
		require.NoError(t, err)
		for i := range parts.Len() {
			link.Send(now, Append(nil, protocol, parts.At(i)))
		}
		now = now.Add(gap)
		take(now)
	}
	take(now.Add(time.Hour))
	check(t, r)
	return arrived, r.Stats()
}

// TestLossAmplificationOnAPath measures the article's figures at 1 % loss.
func TestLossAmplificationOnAPath(t *testing.T) {
	seed := testkit.Seed(t)
	for _, c := range []struct{ fragments, blocks int }{{2, 10_000}, {10, 4000}, {100, 800}, {255, 500}} {
		t.Run(fmt.Sprint(c.fragments), func(t *testing.T) {
			path := netsim.Config{Delay: 10 * time.Millisecond, Loss: 0.01, Seed: seed}
			arrived, _ := cross(t, path, Config{}, c.fragments*Size, c.blocks, 20*time.Millisecond)
			want, n := Loss(0.01, c.fragments), float64(c.blocks)
			got := 1 - float64(arrived)/n
			t.Logf("%d fragments: %.1f %% of the blocks are lost, %.1f %% expected", c.fragments, 100*got, 100*want)
			require.InDelta(t, want, got, 6*math.Sqrt(want*(1-want)/n))
		})
	}
}

func TestPerfectPathLosesNothing(t *testing.T) {
	path := netsim.Config{Delay: 30 * time.Millisecond, Jitter: 20 * time.Millisecond, Duplicate: 0.3, Reorder: 0.3, ReorderDelay: 100 * time.Millisecond, Seed: testkit.Seed(t)}
	for _, size := range []int{2, Size, Size + 1, 4 * Size, MaxBlock} {
		arrived, stats := cross(t, path, Config{Lifetime: 5 * time.Second, MaxBytes: 16 << 20}, size, 300, 16*time.Millisecond)
		require.Equal(t, 300, arrived, "%d bytes: %+v", size, stats)
		require.Positive(t, stats.Duplicates)
	}
}

// TestBadPath has half of all packets lost, delays of seconds, and a window that blocks outrun.
func TestBadPath(t *testing.T) {
	path := netsim.Config{Delay: time.Second, Jitter: 3 * time.Second, Loss: 0.5, Duplicate: 0.2, Reorder: 0.5, ReorderDelay: 2 * time.Second, Seed: testkit.Seed(t)}
	arrived, stats := cross(t, path, Config{Lifetime: 4 * time.Second}, 2*Size+500, 20_000, 5*time.Millisecond)
	t.Logf("%d of 20,000 blocks of 3 fragments: %+v", arrived, stats)
	require.Positive(t, arrived)
	require.Positive(t, stats.Passed+stats.Expired)
}
