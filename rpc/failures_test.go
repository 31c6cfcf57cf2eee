package rpc

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// guess tries a wrong token as often as it may until the end, and returns how often that was.
func guess(f *failures, from netip.Prefix, now, end time.Time) (tries int) {
	for !now.After(end) {
		if wait := f.ask(from, []byte("guess"), now); wait > 0 {
			now = now.Add(wait)
			continue
		}
		tries++
		f.failed(from, []byte("guess"), now)
	}
	return tries
}

func TestGuessesOfOneAddress(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, row := range []struct {
		free  int
		after time.Duration
		want  int
	}{
		{8, 0, 8},
		{8, 250 * time.Millisecond, 9},
		{8, 15750 * time.Millisecond, 14}, // 0.5, 1, 2, 4 and 8 s more
		{8, time.Minute, 18},
		{8, time.Hour, 372},
		{1, 0, 1},
		{1, time.Second, 3},
	} {
		require.Equal(t, row.want, guess(newFailures(row.free), ann, start, start.Add(row.after)), "%+v", row)
	}
	none := newFailures(-1)
	for range 1000 {
		require.Zero(t, none.ask(ann, nil, start))
		none.failed(ann, nil, start)
	}
	require.Empty(t, none.entries)
}

func TestGuesserAndHisNeighbours(t *testing.T) {
	f := newFailures(8)
	now := time.Unix(1000, 0)
	f.passed([]byte("old player"))
	guess(f, ann, now, now.Add(time.Hour))
	now = now.Add(time.Hour)

	t.Log("# while the guesser is at it")
	require.Zero(t, f.ask(bob, []byte("new player"), now), "another address")
	require.Zero(t, f.ask(ann, []byte("old player"), now), "a token that was right before")
	wait := f.ask(ann, []byte("new player"), now)
	require.Positive(t, wait)
	require.LessOrEqual(t, wait, maxPause)

	t.Log("# when he has stopped")
	now = now.Add(wait)
	require.Zero(t, f.ask(ann, []byte("new player"), now))
	require.Equal(t, maxPause, f.ask(ann, []byte("guess"), now), "one at a time")
	f.passed([]byte("new player"))
	require.Positive(t, f.ask(ann, []byte("guess"), now), "a right token takes nothing back")
	require.Zero(t, f.ask(ann, []byte("guess"), now.Add(failureMemory)))

	t.Log("# a token that was right and is not any more")
	f.failed(ann, []byte("old player"), now)
	require.Positive(t, f.ask(ann, []byte("old player"), now))
}

// TestFailuresAreBounded: whatever many addresses do, the table stays small, and no address ever counts less than it failed.
func TestFailuresAreBounded(t *testing.T) {
	r := testkit.Rand(t)
	f := newFailures(8)
	now := time.Unix(1000, 0)
	failed := make(map[netip.Prefix]int)
	for range 12_000 {
		var ip [4]byte
		binary.BigEndian.PutUint32(ip[:], uint32(r.IntN(3*maxFailures)*r.IntN(2)))
		from := netip.PrefixFrom(netip.AddrFrom4(ip), 32)
		failed[from]++
		if counted := f.failed(from, nil, now); counted < failed[from] {
			t.Fatalf("%v failed %d times and counts %d", from, failed[from], counted)
		}
		now = now.Add(time.Millisecond)
	}
	require.LessOrEqual(t, len(f.entries), maxFailures)
	require.Len(t, f.places, len(f.entries))
	for i, e := range f.entries {
		require.Equal(t, i, f.places[e.from])
	}
	heavy := netip.PrefixFrom(netip.AddrFrom4([4]byte{}), 32)
	require.Positive(t, f.ask(heavy, nil, now), "who guessed most is not pushed out")

	t.Log("# entries that are too old are taken first, and nothing of them is inherited")
	require.Equal(t, 1, f.failed(ann, nil, now.Add(2*failureMemory)))
}

func TestGoodTokensAreBounded(t *testing.T) {
	g := newGoodTokens()
	token := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	for i := range maxGoodTokens {
		g.add(token(i))
		g.add(token(i))
	}
	require.True(t, g.has(token(0)))
	g.remove(token(1))
	require.False(t, g.has(token(1)))
	g.add(token(1)) // in another place, which takes that of the oldest
	require.False(t, g.has(token(0)))
	g.add(token(maxGoodTokens))
	require.True(t, g.has(token(1)), "its old place is taken, not its new one")
	for i := range 3 * maxGoodTokens {
		g.add(token(i))
	}
	require.Len(t, g.ring, maxGoodTokens)
	require.Len(t, g.member, maxGoodTokens)
}
