package door

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestDoorCountsEveryone: each client that arrives is counted by what happens
// to it, and no place is kept for one that is gone.
func TestDoorCountsEveryone(t *testing.T) {
	now := time.Unix(1000, 0)
	from := netip.MustParsePrefix("192.0.2.1/32")
	limits := Limits{MaxHandshakes: 4, MaxHandshakesPerAddress: -1, MaxConnsPerAddress: -1, RetryAbove: 1, MaxConns: 2}
	e := New(limits, NewFailures(1), NewClaims[int](0, false))
	room := func(*int) *Full { return nil }
	none := func(*int) *Full { return &Full{Reason: "no memory"} }

	must, open := e.DecideRetry(false, now)
	require.False(t, must)
	require.Zero(t, open)
	must, _ = e.DecideRetry(true, now)
	require.True(t, must, "an address from which many handshakes came")
	first, _, full := e.Arrive(from, true, now)
	require.Nil(t, full)
	must, open = e.DecideRetry(false, now)
	require.True(t, must)
	require.Equal(t, 1, open)

	v, out, full := e.Admit(first, from, now, room)
	require.Same(t, first, v)
	require.Nil(t, out)
	require.Nil(t, full)
	_, _, full = e.Admit(nil, from, now, none)
	require.Contains(t, full.Reason, "no memory")
	require.Equal(t, 1, e.Conns())
	second, _, full := e.Admit(nil, from, now, room)
	require.Nil(t, full)
	_, _, full = e.Admit(nil, from, now, room)
	require.Contains(t, full.Reason, "connection limit of 2 reached (Config.MaxConns)")

	e.Join(first)
	e.Fail(second)
	e.TurnAway(nil)
	require.Equal(t, 1, e.Conns())
	require.Zero(t, e.Open(now))
	e.Quit(from)
	e.End()
	require.Zero(t, e.Conns())
	require.Equal(t, Counts{Begun: 2, Retries: 2, Refused: 3, Failed: 1}, e.Counts)
}

// TestDoorAsksOneAtATime: no more logins of an address are asked about than may still fail.
func TestDoorAsksOneAtATime(t *testing.T) {
	now := time.Unix(1000, 0)
	from := netip.MustParsePrefix("192.0.2.1/32")
	e := New(Limits{MaxHandshakes: 4, MaxHandshakesPerAddress: -1, MaxConnsPerAddress: -1, MaxConns: 4}, NewFailures(1), NewClaims[int](0, false))
	a, _, _ := e.Arrive(from, true, now)
	b, _, _ := e.Arrive(from, true, now)
	may, _ := e.Ask(a, []byte("one"), now)
	require.True(t, may)
	may, pause := e.Ask(b, []byte("two"), now)
	require.False(t, may)
	require.Zero(t, pause, "until the other is answered")
	other, _, _ := e.Arrive(netip.MustParsePrefix("192.0.2.2/32"), true, now)
	may, _ = e.Ask(other, []byte("three"), now)
	require.True(t, may, "of another address: nobody can hold up all logins")
	e.Answered(a)
	e.Refused(a, []byte("one"), now)
	may, pause = e.Ask(b, []byte("two"), now)
	require.False(t, may)
	require.Positive(t, pause)
	require.Equal(t, Counts{Begun: 3, LoginsFailed: 1, LoginsSlowed: 1}, e.Counts)
}

// TestDoorUnderFloods: clients arrive from random addresses, prove them or not,
// log in, join, or are evicted. No limit is exceeded, everything that is
// counted exists, and when all are gone nothing is left.
func TestDoorUnderFloods(t *testing.T) {
	random := testkit.Rand(t)
	for range 25 {
		testDoorUnderFlood(t, random)
	}
}

func testDoorUnderFlood(t *testing.T, random *rand.Rand) {
	limits := Limits{MaxHandshakes: 1 + random.IntN(12), MaxHandshakesPerAddress: random.IntN(6) - 1, MaxConnsPerAddress: 1 + random.IntN(8), RetryAbove: 4, MaxConns: 1 + random.IntN(20)}
	f := &flood{T: t, random: random, now: time.Unix(1000, 0)}
	f.Door = New(limits, NewFailures(3), NewClaims[guest](0, false))
	for range 2000 {
		f.now = f.now.Add(time.Duration(random.IntN(100)) * time.Millisecond)
		f.act()
		f.check()
	}
	for len(f.guests) > 0 {
		f.depart(f.guests[0])
	}
	f.now = f.now.Add(forgedTime)
	require.Zero(t, f.Open(f.now))
	require.Zero(t, f.Conns())
	require.Empty(t, f.addresses)
}

// flood is the clients that arrive at a door.
type flood struct {
	*testing.T
	*Door[guest]
	random *rand.Rand
	now    time.Time
	guests []*guest // who has not gone
}

// guest is a client and, once it is admitted, its connection.
type guest struct {
	from             netip.Prefix
	visit            *Slot[guest]
	admitted, joined bool
}

func (f *flood) act() {
	n := len(f.guests)
	if n == 0 || f.random.IntN(3) == 0 {
		f.come()
		return
	}
	g := f.guests[f.random.IntN(n)]
	switch f.random.IntN(6) {
	case 0:
		f.depart(g)
	case 1, 2:
		f.admit(g)
	case 3:
		if g.admitted && !g.joined && !g.visit.authenticating && !g.visit.Left() {
			if may, _ := f.Ask(g.visit, []byte("token"), f.now); may {
				return
			}
			f.Await(g.visit, g, f.random.IntN(2) == 0)
		}
	case 4:
		if g.visit != nil && g.visit.authenticating {
			f.Answered(g.visit)
			f.Await(g.visit, g, true)
		}
	case 5:
		if g.admitted && !g.joined && !g.visit.authenticating && !g.visit.Left() {
			f.Join(g.visit)
			g.joined = true
		}
	}
}

// come makes a client arrive, by a packet or with a carrier.
func (f *flood) come() {
	g := &guest{from: netip.MustParsePrefix([]string{"192.0.2.1/32", "192.0.2.2/32", "2001:db8::/64"}[f.random.IntN(3)])}
	if f.random.IntN(8) == 0 {
		g.from = netip.Prefix{}
	}
	if f.random.IntN(4) > 0 {
		v, out, full := f.Arrive(g.from, f.random.IntN(2) == 0, f.now)
		f.evicted(out)
		if require.Equal(f, full == nil, v != nil); v == nil {
			return
		}
		g.visit = v
	}
	f.guests = append(f.guests, g)
}

// admit makes a connection of a guest, which is gone if there is no room.
func (f *flood) admit(g *guest) {
	if g.admitted || g.visit != nil && g.visit.Left() {
		return
	}
	var makesRoom *guest
	v, out, full := f.Admit(g.visit, g.from, f.now, func(evicted *guest) *Full {
		makesRoom = evicted
		if evicted == nil && f.random.IntN(10) == 0 {
			return &Full{Reason: "no memory"}
		}
		return nil
	})
	require.Same(f, makesRoom, out)
	require.True(f, full == nil || out == nil, "evicted for nothing")
	f.evicted(out)
	if full != nil {
		f.forget(g)
		return
	}
	g.visit, g.admitted = v, true
	v.WaitFor(g)
}

// evicted has a connection that had to make room go, at once.
func (f *flood) evicted(out *guest) {
	if out != nil {
		require.True(f, out.admitted && !out.joined && out.visit.Left())
		f.depart(out)
	}
}

// depart has a guest go, whose token may still be asked about.
func (f *flood) depart(g *guest) {
	switch {
	case g.joined:
		f.Quit(g.visit.From())
		f.End()
	case g.admitted:
		f.Fail(g.visit)
	case g.visit != nil:
		f.Leave(g.visit)
	}
	if g.visit != nil && g.visit.authenticating {
		f.Answered(g.visit)
	}
	f.forget(g)
}

func (f *flood) forget(g *guest) {
	f.guests = slices.DeleteFunc(f.guests, func(o *guest) bool { return o == g })
}

// check compares the door's counts with the clients that there are.
func (f *flood) check() {
	conns, has := 0, make(map[netip.Prefix]presence)
	count := func(from netip.Prefix, handshakes, inside int) {
		p := has[from]
		has[from] = presence{p.handshakes + handshakes, p.joined + inside}
	}
	for _, v := range f.slots {
		if v.proven {
			count(v.from, 1, 0)
		}
	}
	for _, g := range f.guests {
		if g.admitted {
			conns++
		}
		if g.joined {
			count(g.from, 0, 1)
		}
	}
	require.Equal(f, conns, f.Conns())
	require.LessOrEqual(f, conns, f.MaxConns)
	require.Equal(f, has, f.addresses)
	require.LessOrEqual(f, len(f.slots), f.MaxHandshakes)
	for from, p := range has {
		if from.IsValid() {
			require.LessOrEqual(f, p.handshakes+p.joined, f.MaxConnsPerAddress)
		}
	}
}
