package door

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEntryCountsEveryone: each who came is in the counts of what became of it, and no place is kept for who is gone.
func TestEntryCountsEveryone(t *testing.T) {
	now := time.Unix(1000, 0)
	from := netip.MustParsePrefix("192.0.2.1/32")
	limits := Limits{Handshakes: 4, OfAddress: -1, Connections: -1, RetryAbove: 1}
	e := NewEntry(New[int](limits), NewFailures(1), NewClaims[int](0, false), 2)
	room := func() *Full { return nil }
	none := func() *Full { return &Full{"no memory"} }

	must, open := e.MustProve(now)
	require.False(t, must)
	require.Zero(t, open)
	first, _, full := e.Arrive(from, true, now)
	require.Nil(t, full)
	must, open = e.MustProve(now)
	require.True(t, must)
	require.Equal(t, 1, open)

	v, out, full := e.Admit(first, from, now, room)
	require.Same(t, first, v)
	require.Nil(t, out)
	require.Nil(t, full)
	_, _, full = e.Admit(nil, from, now, none)
	require.ErrorContains(t, full, "no memory")
	require.Equal(t, 1, e.Conns())
	second, _, full := e.Admit(nil, from, now, room)
	require.Nil(t, full)
	_, _, full = e.Admit(nil, from, now, room)
	require.ErrorContains(t, full, "2 connections, the limit is Config.MaxConns")

	e.Join(first)
	e.Fail(second)
	e.TurnAway(nil)
	require.Equal(t, 1, e.Conns())
	require.Zero(t, e.Open(now))
	e.Quit(from)
	e.End()
	require.Zero(t, e.Conns())
	require.Equal(t, Counts{Begun: 2, Retries: 1, Refused: 3, Failed: 1}, e.Counts)
}

// TestEntryAsksOneAtATime: no more logins of an address are asked about than may still fail.
func TestEntryAsksOneAtATime(t *testing.T) {
	now := time.Unix(1000, 0)
	from := netip.MustParsePrefix("192.0.2.1/32")
	e := NewEntry(New[int](Limits{Handshakes: 4, OfAddress: -1, Connections: -1}), NewFailures(1), NewClaims[int](0, false), 4)
	a, _, _ := e.Arrive(from, true, now)
	b, _, _ := e.Arrive(from, true, now)
	may, _ := e.MayAsk(a, []byte("one"), now)
	require.True(t, may)
	may, pause := e.MayAsk(b, []byte("two"), now)
	require.False(t, may)
	require.Zero(t, pause, "until the other is answered")
	e.Answered(a)
	e.Refused(a, []byte("one"), now)
	may, pause = e.MayAsk(b, []byte("two"), now)
	require.False(t, may)
	require.Positive(t, pause)
	require.Equal(t, Counts{Begun: 2, LoginsFailed: 1, LoginsSlowed: 1}, e.Counts)
}
