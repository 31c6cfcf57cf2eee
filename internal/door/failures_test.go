package door

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// requireAsked: Authenticate may be asked about a token while it is about none
// other of the address.
func requireAsked(t *testing.T, f *Failures, from netip.Prefix, token string, now time.Time) {
	t.Helper()
	may, _ := f.Ask(from, []byte(token), 0, now)
	require.True(t, may)
}

// requirePause returns how long an address must pause.
func requirePause(t *testing.T, f *Failures, from netip.Prefix, token string, now time.Time) time.Duration {
	t.Helper()
	may, pause := f.Ask(from, []byte(token), 0, now)
	require.False(t, may)
	require.Positive(t, pause)
	return pause
}

// guess tries a wrong token as often as it may until the end, and returns how often that was.
func guess(f *Failures, from netip.Prefix, now, end time.Time) (tries int) {
	for !now.After(end) {
		if may, pause := f.Ask(from, []byte("guess"), 0, now); !may {
			now = now.Add(pause)
			continue
		}
		tries++
		f.Failed(from, []byte("guess"), now)
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
		require.Equal(t, row.want, guess(NewFailures(row.free), ann, start, start.Add(row.after)), "%+v", row)
	}
	none := NewFailures(-1)
	for range 1000 {
		requireAsked(t, none, ann, "", start)
		none.Failed(ann, nil, start)
	}
	require.Empty(t, none.entries)
}

func TestGuesserAndHisNeighbours(t *testing.T) {
	f := NewFailures(8)
	now := time.Unix(1000, 0)
	f.Passed([]byte("old player"))
	guess(f, ann, now, now.Add(time.Hour))
	now = now.Add(time.Hour)

	t.Log("# while the guesser is at it")
	requireAsked(t, f, bob, "new player", now) // another address
	requireAsked(t, f, ann, "old player", now) // a token that was right before
	pause := requirePause(t, f, ann, "new player", now)
	require.LessOrEqual(t, pause, maxPause)

	t.Log("# when he has stopped")
	now = now.Add(pause)
	requireAsked(t, f, ann, "new player", now)
	may, pause := f.Ask(ann, []byte("guess"), 1, now)
	require.False(t, may, "one at a time")
	require.Zero(t, pause, "its turn comes when that is answered")
	f.Passed([]byte("new player"))
	f.Failed(ann, []byte("guess"), now)
	require.Equal(t, maxPause, requirePause(t, f, ann, "guess", now), "a right token takes nothing back")
	requireAsked(t, f, ann, "guess", now.Add(failureMemory))

	t.Log("# a token that was right and is not any more")
	f.Failed(ann, []byte("old player"), now)
	requirePause(t, f, ann, "old player", now)
}

// TestGuessesAtOnce: no more are asked about than may still fail.
func TestGuessesAtOnce(t *testing.T) {
	f := NewFailures(8)
	now := time.Unix(1000, 0)
	for failed := range 8 {
		asking := 0
		for may := true; may; asking++ {
			may, _ = f.Ask(ann, nil, asking, now)
		}
		require.Equal(t, 8-failed, asking-1)
		f.Failed(ann, nil, now)
	}
	may, _ := f.Ask(netip.Prefix{}, nil, 1000, now)
	require.True(t, may, "no address, no limit")
	may, _ = NewFailures(-1).Ask(ann, nil, 1000, now)
	require.True(t, may)
}

// TestFailuresAreBounded: whatever many addresses do, the table stays small,
// and no address ever counts less than it failed.
func TestFailuresAreBounded(t *testing.T) {
	r := testkit.Rand(t)
	f := NewFailures(8)
	now := time.Unix(1000, 0)
	failed := make(map[netip.Prefix]int)
	for range 12_000 {
		var ip [4]byte
		binary.BigEndian.PutUint32(ip[:], uint32(r.IntN(3*maxFailures)*r.IntN(2)))
		from := netip.PrefixFrom(netip.AddrFrom4(ip), 32)
		failed[from]++
		if counted := f.Failed(from, nil, now); counted < failed[from] {
			t.Fatalf("%v failed %d times and counts %d", from, failed[from], counted)
		}
		now = now.Add(time.Millisecond)
	}
	require.LessOrEqual(t, len(f.entries), maxFailures)
	require.Len(t, f.index, len(f.entries))
	for i, e := range f.entries {
		require.Equal(t, i, f.index[e.from])
	}
	heavy := netip.PrefixFrom(netip.AddrFrom4([4]byte{}), 32)
	requirePause(t, f, heavy, "", now) // who guessed most is not pushed out

	t.Log("# entries that are too old are taken first, and nothing of them is inherited")
	require.Equal(t, 1, f.Failed(ann, nil, now.Add(2*failureMemory)))
}

// TestTheLightestIsForgotten: a full table has no place for the address that
// failed least, or guessers would free themselves by guesses of others.
func TestTheLightestIsForgotten(t *testing.T) {
	f := NewFailures(8)
	now := time.Unix(1000, 0)
	address := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
	}
	const lightest = 7
	for i := range maxFailures {
		f.Failed(address(i), nil, now)
		if i != lightest {
			f.Failed(address(i), nil, now)
		}
	}
	require.Equal(t, 2, f.Failed(ann, nil, now), "with the failure of the one that is forgotten")
	require.Nil(t, f.find(address(lightest), now))
	require.NotNil(t, f.find(address(0), now))
	require.Len(t, f.entries, maxFailures)
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
	require.Len(t, g.index, maxGoodTokens)
}
