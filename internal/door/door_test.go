package door

import (
	"cmp"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

var (
	ann = netip.MustParsePrefix("192.0.2.1/32")
	bob = netip.MustParsePrefix("192.0.2.2/32")
	cat = netip.MustParsePrefix("192.0.2.3/32")
)

func TestAddressOf(t *testing.T) {
	udp := func(ip string) net.Addr { return &net.UDPAddr{IP: net.ParseIP(ip), Port: 7, Zone: "eth0"} }
	for _, row := range []struct {
		addr net.Addr
		want string
	}{
		{udp("192.0.2.1"), "192.0.2.1/32"},
		{udp("::ffff:192.0.2.1"), "192.0.2.1/32"},
		{udp("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64"},
		{udp("fe80::1"), "fe80::/64"},
		{&net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 8}, "192.0.2.1/32"},
		{&net.UnixAddr{Name: "pipe"}, "invalid Prefix"},
		{&net.UDPAddr{}, "invalid Prefix"},
		{nil, "invalid Prefix"},
	} {
		require.Equal(t, row.want, AddressOf(row.addr).String())
	}
}

// entrance is a door whose visitors arrive at one time.
type entrance struct {
	*Door[client]
	t   *testing.T
	now time.Time
}

// client stands for a connection.
type client struct{ id uint64 }

// newEntrance returns a door with rpc.Config's defaults for limits that are 0.
func newEntrance(t *testing.T, limits Limits) *entrance {
	limits.MaxHandshakes = cmp.Or(limits.MaxHandshakes, 128)
	limits.MaxConnsPerAddress = cmp.Or(limits.MaxConnsPerAddress, 256)
	limits.RetryAbove = cmp.Or(limits.RetryAbove, max(1, limits.MaxHandshakes/4))
	return &entrance{New(limits, NewFailures(-1), NewClaims[client](0, false)), t, time.Unix(1000, 0)}
}

// come begins handshakes of an address; silent ones may have to make room. It
// returns those that have a place.
func (e *entrance) come(n int, from netip.Prefix, proven, silent bool) (placed []*Slot[client]) {
	for range n {
		v, _, full := e.takeSlot(from, proven, e.now)
		if full != nil {
			continue
		}
		if silent {
			v.conn = &client{}
		}
		placed = append(placed, v)
	}
	return placed
}

func TestShareOfAnAddress(t *testing.T) {
	for _, row := range []struct {
		limits Limits
		want   []int // places that each of several greedy addresses gets, when they come in turn
	}{
		{Limits{}, []int{64}},
		{Limits{}, []int{43, 43}},
		{Limits{}, []int{32, 32, 32}},
		{Limits{MaxHandshakesPerAddress: 16}, []int{16, 16}},
		{Limits{MaxHandshakesPerAddress: 100}, []int{64}},
		{Limits{MaxHandshakesPerAddress: -1}, []int{128}},
		{Limits{MaxHandshakes: 1}, []int{1}},
		{Limits{MaxConnsPerAddress: 10}, []int{10}},
	} {
		e := newEntrance(t, row.limits)
		got := make([]int, len(row.want))
		for range 200 {
			for i := range got {
				from := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i)}), 32)
				got[i] += len(e.come(1, from, true, false))
			}
		}
		require.Equal(t, row.want, got, "%+v", row)
	}
}

func TestForgedAddressesCountNowhere(t *testing.T) {
	e := newEntrance(t, Limits{})
	for e.Open(e.now) < e.RetryAbove {
		require.Len(t, e.come(1, ann, false, false), 1)
	}
	require.Len(t, e.slots, 32, "a quarter of MaxHandshakes")
	require.Empty(t, e.addresses, "nobody has proven that he is there")
	require.Len(t, e.come(64, ann, true, false), 48, "the owner of the address: half of the rest")

	t.Log("# a forged close at once gives no place back before a second has passed")
	for _, v := range slices.Clone(e.slots[:32]) {
		e.Leave(v)
		e.Leave(v)
	}
	require.GreaterOrEqual(t, e.Open(e.now.Add(forgedTime-1)), e.RetryAbove)
	require.Len(t, e.slots, 80)
	e.Open(e.now.Add(forgedTime))
	require.Len(t, e.slots, 48)
}

func TestProvingTheAddress(t *testing.T) {
	e := newEntrance(t, Limits{MaxHandshakesPerAddress: 2})
	first := e.come(1, ann, false, false)[0]
	e.come(2, ann, true, true)
	out, full := e.prove(first)
	require.Nil(t, full)
	require.NotNil(t, out, "one that is silent makes room")
	require.Equal(t, 2, e.addresses[ann].handshakes)
	_, full = e.prove(first)
	require.Nil(t, full, "again is nothing")

	third := e.come(1, ann, false, false)[0]
	for _, v := range e.slots {
		v.conn = nil
	}
	_, full = e.prove(third)
	require.Equal(t, "handshake limit of 2 reached for 192.0.2.1/32 (Config.MaxHandshakesPerAddress and MaxHandshakes)", full.Reason)
}

func TestWhoMakesRoom(t *testing.T) {
	e := newEntrance(t, Limits{MaxHandshakes: 8, RetryAbove: 8})
	anns := e.come(4, ann, true, true)
	require.Len(t, anns, 4)
	oldest := anns[0].conn
	v, out, full := e.takeSlot(ann, true, e.now)
	require.Nil(t, full)
	require.Same(t, oldest, out, "of its own address, the oldest silent one")
	v.conn = &client{}

	e.come(2, bob, true, true)
	e.come(1, cat, true, true)
	e.come(1, netip.Prefix{}, true, true)
	require.Len(t, e.slots, 8)
	second := anns[1].conn
	_, out, full = e.takeSlot(netip.MustParsePrefix("192.0.2.9/32"), true, e.now)
	require.Nil(t, full)
	require.Same(t, second, out, "all full: of the address that has most")

	_, _, full = e.takeSlot(cat, false, e.now)
	require.Contains(t, full.Reason, "handshake limit of 8 reached (Config.MaxHandshakes)", "nobody makes room for a forged address")
	for _, v := range e.slots {
		v.conn = nil
	}
	_, _, full = e.takeSlot(netip.Prefix{}, true, e.now)
	require.Contains(t, full.Reason, "handshake limit of 8 reached (Config.MaxHandshakes)", "who waits for an answer makes no room")
	require.True(t, full.Busy, "a client that tries again soon gets in")

	t.Log("# who was answered and says no Join makes room, the last one to be answered last")
	answered := []*Slot[client]{v, anns[3], anns[2]}
	for i, v := range answered {
		e.Await(v, &client{id: uint64(i)}, true)
	}
	_, full = e.evict(connectionSlot, netip.Prefix{}, "full")
	require.Contains(t, full.Reason, "full", "of connections, who is welcome is one already")
	require.False(t, full.Busy, "a client would try again and again although nobody leaves")
	for i := range answered {
		_, out, full = e.takeSlot(netip.Prefix{}, true, e.now)
		require.Nil(t, full)
		require.EqualValues(t, i, out.id)
	}
}

// TestOfEqualsTheFirstMakesRoom: the newest client has hardly had time to
// answer, whatever its address.
func TestOfEqualsTheFirstMakesRoom(t *testing.T) {
	e := newEntrance(t, Limits{MaxHandshakes: 2})
	first := e.come(1, ann, true, true)[0].conn
	e.come(1, bob, true, true)
	_, out, full := e.takeSlot(cat, true, e.now)
	require.Nil(t, full)
	require.Same(t, first, out)
}

// TestWhoIsWelcomeMakesRoomLast: its Join may be in flight. Only if its address has
// more handshakes than others does it make room before those that were not welcomed.
func TestWhoIsWelcomeMakesRoomLast(t *testing.T) {
	e := newEntrance(t, Limits{MaxHandshakes: 3, MaxHandshakesPerAddress: 2})
	welcome := e.come(1, ann, true, false)[0]
	e.Await(welcome, &client{}, true)
	silent := e.come(1, ann, true, true)[0].conn
	_, out, full := e.takeSlot(ann, true, e.now)
	require.Nil(t, full)
	require.Same(t, silent, out, "of its own address")

	e = newEntrance(t, Limits{MaxHandshakes: 2})
	welcome = e.come(1, ann, true, false)[0]
	e.Await(welcome, &client{}, true)
	silent = e.come(1, bob, true, true)[0].conn
	v, out, full := e.takeSlot(cat, true, e.now)
	require.Nil(t, full)
	require.Same(t, silent, out, "of all addresses")
	e.Leave(v)

	e = newEntrance(t, Limits{MaxHandshakes: 4, MaxHandshakesPerAddress: 2})
	for range 2 {
		e.Await(e.come(1, ann, true, false)[0], &client{id: 1}, true)
	}
	e.come(1, bob, true, true)
	e.come(1, cat, true, true)
	_, out, full = e.takeSlot(netip.MustParsePrefix("192.0.2.9/32"), true, e.now)
	require.Nil(t, full)
	require.EqualValues(t, 1, out.id, "its address has two")
}

// TestNewcomersAlwaysFindRoom: however many addresses took all places, as long
// as their clients are waited for.
func TestNewcomersAlwaysFindRoom(t *testing.T) {
	e := newEntrance(t, Limits{})
	for i := range 200 {
		for range 200 {
			placed := e.come(1, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i)}), 32), true, false)
			require.Len(t, placed, 1)
			e.Await(placed[0], &client{}, true)
		}
	}
	require.Len(t, e.slots, 128)
}

func TestAuthenticateKeepsThePlace(t *testing.T) {
	e := newEntrance(t, Limits{MaxHandshakes: 2, MaxHandshakesPerAddress: -1})
	v := e.come(1, ann, true, false)[0]
	v.authenticating = true
	e.Leave(v)
	require.Len(t, e.come(2, ann, true, false), 1, "it runs on, whatever became of the connection")
	e.Answered(v)
	require.Len(t, e.come(1, ann, true, false), 1)
	waiting := e.slots[0]
	waiting.authenticating = true
	e.Answered(waiting)
	require.Len(t, e.slots, 2, "the client waits for the answer")
}

func TestThoseInsideCount(t *testing.T) {
	e := newEntrance(t, Limits{MaxConnsPerAddress: 3})
	for range 3 {
		e.Join(e.come(1, ann, true, false)[0])
	}
	_, _, full := e.takeSlot(ann, true, e.now)
	require.Contains(t, full.Reason, "connection limit of 3 reached for 192.0.2.1/32 (Config.MaxConnsPerAddress)")
	require.Len(t, e.come(1, bob, true, false), 1)
	e.Quit(ann)
	require.Len(t, e.come(2, ann, true, false), 1)
	for _, v := range slices.Clone(e.slots) {
		e.Leave(v)
	}
	e.Quit(ann)
	e.Quit(ann)
	require.Empty(t, e.addresses, "who has nothing is forgotten")
}

// TestDoorScript: whatever happens in whatever order, no limit is exceeded,
// nothing is counted twice, and nothing is left over.
func TestDoorScript(t *testing.T) {
	r := testkit.Rand(t)
	for range 50 {
		e := newEntrance(t, Limits{MaxHandshakes: 1 + r.IntN(20), RetryAbove: r.IntN(8), MaxHandshakesPerAddress: r.IntN(6) - 1, MaxConnsPerAddress: r.IntN(12) - 1})
		addresses := []netip.Prefix{{}, ann, bob, cat}
		var all []*Slot[client]
		var inside []netip.Prefix
		for range 300 {
			e.now = e.now.Add(time.Duration(r.IntN(200)) * time.Millisecond)
			if r.IntN(3) == 0 || len(all) == 0 {
				proven := r.IntN(2) == 0 || e.Open(e.now) >= e.RetryAbove
				all = append(all, e.come(1, addresses[r.IntN(len(addresses))], proven, proven && r.IntN(2) == 0)...)
			} else {
				inside = e.step(r, all[r.IntN(len(all))], inside)
			}
			e.check(len(inside))
		}
		for _, v := range all {
			e.Answered(v)
			e.Leave(v)
		}
		for _, from := range inside {
			e.Quit(from)
		}
		e.sweep(e.now.Add(forgedTime))
		require.Empty(t, e.slots)
		require.Empty(t, e.addresses)
	}
}

// step lets one thing happen to a visit, as a world would.
func (e *entrance) step(r *rand.Rand, v *Slot[client], inside []netip.Prefix) []netip.Prefix {
	switch r.IntN(5) {
	case 0:
		if !v.left {
			_, _ = e.prove(v)
		}
	case 1:
		v.authenticating = v.proven && !v.left
		v.conn = nil
	case 2:
		e.Answered(v)
		if v.proven { // it has a connection
			e.Await(v, &client{}, r.IntN(2) == 0)
		}
	case 3:
		if v.proven && !v.left && !v.authenticating {
			e.Join(v)
			return append(inside, v.from)
		}
	default:
		e.Leave(v)
	}
	return inside
}

func (e *entrance) check(inside int) {
	e.t.Helper()
	require.LessOrEqual(e.t, len(e.slots), e.MaxHandshakes)
	proven, counted := 0, presence{}
	for _, v := range e.slots {
		if v.proven {
			proven++
		}
	}
	for _, from := range []netip.Prefix{{}, ann, bob, cat} {
		has := e.addresses[from]
		counted.handshakes += has.handshakes
		counted.joined += has.joined
		if from.IsValid() && e.MaxHandshakesPerAddress > 0 {
			require.LessOrEqual(e.t, has.handshakes, e.MaxHandshakesPerAddress)
		}
		if from.IsValid() && e.MaxConnsPerAddress >= 0 {
			require.LessOrEqual(e.t, has.handshakes+has.joined, e.MaxConnsPerAddress)
		}
	}
	require.Equal(e.t, presence{proven, inside}, counted)
}
