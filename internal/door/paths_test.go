package door

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

func at(ip string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), port)
}

// TestAnswersToUnprovenAddressesAreBounded: whatever comes from an address, from all of its ports together, QUIC may answer at most three times as
// much there, and a little more once in ten seconds.
func TestAnswersToUnprovenAddressesAreBounded(t *testing.T) {
	random := testkit.Rand(t)
	var p Paths
	now := time.Unix(1e9, 0)
	var in, out int
	for range 20_000 {
		size := 40 + random.IntN(60)
		in += size
		if p.Admit(at("10.0.0.1", uint16(random.IntN(1<<16))), size, now) {
			out += pathAnswer
		}
		require.LessOrEqual(t, out, 3*in+pathAllowance)
		now = now.Add(time.Duration(random.IntN(int(5 * time.Millisecond))))
	}
	require.Greater(t, out, 2*in, "what is honest passes")
	require.False(t, p.Admit(at("::ffff:10.0.0.1", 1), 40, now) && p.Admit(at("10.0.0.1", 1), 40, now), "it is the same address")
	require.True(t, p.Admit(at("10.0.0.2", 1), 40, now), "another one has its own")
	require.True(t, p.Admit(at("10.0.0.1", 1), pathAnswer, now), "a full packet may always be answered")
}

// TestProvenAddressesAreFree: packets from the address of a connection are never held back, and those from other ports of it are.
func TestProvenAddressesAreFree(t *testing.T) {
	var p Paths
	now := time.Unix(1e9, 0)
	p.Prove(at("10.0.0.1", 7))
	for range 1000 {
		require.True(t, p.Admit(at("10.0.0.1", 7), 40, now))
	}
	admitted := 0
	for range 1000 {
		if p.Admit(at("10.0.0.1", 8), 40, now) {
			admitted++
		}
	}
	require.LessOrEqual(t, admitted*pathAnswer, 3*40*1000+pathAllowance)
	require.Equal(t, 1, p.Proven())
	p.Forget()
	require.False(t, p.Knows(at("10.0.0.1", 7)))
}

// TestMovedClientsAreHeard: a client whose address has changed sends small packets, of which the first pass, and after a while again.
func TestMovedClientsAreHeard(t *testing.T) {
	var p Paths
	now := time.Unix(1e9, 0)
	for range 3 {
		for range 10 {
			require.True(t, p.Admit(at("2001:db8::1", 7), 40, now))
		}
		now = now.Add(21 * time.Second)
		require.True(t, p.Admit(at("2001:db8:1::1", 7), 40, now), "another network")
		now = now.Add(21 * time.Second)
		require.True(t, p.Admit(at("2001:db8:1::1", 7), 40, now))
	}
}

// TestForgettingAnAddressCostsMore: who has an address forgotten, by packets from many others, gains less than those took.
func TestForgettingAnAddressCostsMore(t *testing.T) {
	var p Paths
	now := time.Unix(1e9, 0)
	var in, out int
	for round := range 10 {
		for p.Admit(at("10.0.0.1", 1), 40, now) {
			in, out = in+40, out+pathAnswer
		}
		for i := range 2*mostPaths + 1 {
			in += 40
			other := netip.AddrFrom4([4]byte{11, byte(round), byte(i >> 8), byte(i)})
			p.Admit(netip.AddrPortFrom(other, 1), 40, now)
		}
	}
	require.Greater(t, out, 2*pathAllowance, "it was forgotten")
	require.LessOrEqual(t, out, in)
}

// TestACrowdBehindOneAddressJoins: each handshake has packets of its own, whatever others have used up, and no more than joining of them.
func TestACrowdBehindOneAddressJoins(t *testing.T) {
	var p Paths
	now := time.Unix(1e9, 0)
	for p.Admit(at("10.0.0.1", 1), 40, now) {
	}
	for port := range uint16(500) {
		p.Begin(at("10.0.0.1", 100+port), true, now)
		for range joining {
			require.True(t, p.Admit(at("10.0.0.1", 100+port), 40, now))
		}
		require.False(t, p.Admit(at("10.0.0.1", 100+port), 0, now))
		p.End(at("10.0.0.1", 100+port))
	}
	require.Empty(t, p.handshakes)
}

// TestForgedHandshakesAreFew: an address from which some handshakes have begun without a proof must prove itself, until it is quiet for a while.
// One that has proven itself counts for nothing.
func TestForgedHandshakesAreFew(t *testing.T) {
	var p Paths
	now := time.Unix(1e9, 0)
	from := func(port int) netip.AddrPort { return at("10.0.0.1", uint16(port)) }
	for port := range 100 {
		p.Begin(from(port), true, now)
	}
	for range 3 {
		for port := range newcomers {
			require.False(t, p.MustProve(from(port)))
			p.Begin(from(port), false, now)
		}
		require.True(t, p.MustProve(from(7)), "whatever the port")
		require.False(t, p.MustProve(at("10.0.0.2", 7)))
		now = now.Add(pathTime)
		p.Admit(at("10.0.0.2", 7), 40, now)
		require.True(t, p.MustProve(from(7)), "remembered for that long")
		now = now.Add(2 * pathTime)
		p.Admit(at("10.0.0.2", 7), 40, now)
		now = now.Add(pathTime)
		p.Admit(at("10.0.0.2", 7), 40, now)
	}
	for range 100 {
		p.Begin(netip.AddrPort{}, false, now)
	}
	require.False(t, p.MustProve(netip.AddrPort{}), "no IP address")
}
