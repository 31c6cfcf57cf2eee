package door

import (
	"iter"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

func at(ip string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), port)
}

// answer is the size of a packet with a PATH_CHALLENGE.
const answer = 1200

// ask makes a small packet arrive from an address, and reports whether it may be answered there.
func ask(p *Paths, from netip.AddrPort, now time.Time) bool {
	p.Received(from, ConnID{}, 40, now)
	return p.Spend(from, answer, now)
}

// connsAt is a connection at each of these addresses.
func connsAt(remotes ...netip.AddrPort) iter.Seq2[uint64, netip.AddrPort] {
	return func(yield func(uint64, netip.AddrPort) bool) {
		for i, at := range remotes {
			if !yield(uint64(i), at) {
				return
			}
		}
	}
}

// TestAnswersToUnprovenAddressesAreBounded: whatever arrives from an address, over all of its ports
// together, QUIC may send at most three times as much there, and a little more once in ten seconds.
func TestAnswersToUnprovenAddressesAreBounded(t *testing.T) {
	random := testkit.Rand(t)
	p, now := NewPaths(), time.Unix(1e9, 0)
	var in, out int
	for range 20_000 {
		size := 40 + random.IntN(60)
		in += size
		from := at("10.0.0.1", uint16(random.IntN(1<<16)))
		p.Received(from, ConnID{}, size, now)
		if size = 1 + random.IntN(2*answer); p.Spend(from, size, now) {
			out += size
		}
		require.LessOrEqual(t, out, 3*in+pathAllowance)
		now = now.Add(time.Duration(random.IntN(int(5 * time.Millisecond))))
	}
	require.Greater(t, out, 2*in, "what is honest passes")
	for p.Spend(at("10.0.0.1", 1), answer, now) {
	}
	require.False(t, p.Spend(at("::ffff:10.0.0.1", 1), answer, now), "it is the same address")
	require.True(t, p.Spend(at("10.0.0.2", 1), answer, now), "another one has its own")
	p.Received(at("10.0.0.1", 1), ConnID{}, answer, now)
	require.True(t, p.Spend(at("10.0.0.1", 1), answer, now), "a full packet may always be answered")
}

// TestProvenAddressesAreFree: packets to the address of a connection are never
// held back, and those to other ports of it are.
func TestProvenAddressesAreFree(t *testing.T) {
	p, now := NewPaths(), time.Unix(1e9, 0)
	p.Prove(at("10.0.0.1", 7))
	for range 1000 {
		require.True(t, p.Spend(at("10.0.0.1", 7), answer, now))
	}
	answers := 0
	for range 1000 {
		if ask(p, at("10.0.0.1", 8), now) {
			answers++
		}
	}
	require.LessOrEqual(t, answers*answer, 3*40*1000+pathAllowance)
	require.Equal(t, 1, p.Proven())
	p.Renew(connsAt())
	require.False(t, p.Knows(at("10.0.0.1", 7)))
}

// TestMovedClientsAreAnswered: a client whose address has changed sends small
// packets, of which the first are answered in full, and after a while again.
func TestMovedClientsAreAnswered(t *testing.T) {
	p, now := NewPaths(), time.Unix(1e9, 0)
	for range 3 {
		for range 10 {
			require.True(t, ask(p, at("2001:db8::1", 7), now))
		}
		now = now.Add(21 * time.Second)
		require.True(t, ask(p, at("2001:db8:1::1", 7), now), "another network")
		now = now.Add(21 * time.Second)
		require.True(t, ask(p, at("2001:db8:1::1", 7), now))
	}
}

// TestMovesBackAndForthAreAnswered: a client that has proven an address gets
// the allowance again, as often as it moves there, and no more while it stays.
func TestMovesBackAndForthAreAnswered(t *testing.T) {
	p, now := NewPaths(), time.Unix(1e9, 0)
	homes := []netip.AddrPort{at("10.0.0.1", 7), at("10.0.0.2", 7), at("10.0.0.1", 8)}
	for i := range 100 {
		home := homes[i%len(homes)]
		require.True(t, ask(p, home, now), "move %d", i)
		p.Renew(connsAt(home))
	}
	answers := 0
	for range 1000 {
		p.Renew(connsAt(homes[0]))
		p.Prove(homes[0])
		if ask(p, homes[2], now) {
			answers++
		}
	}
	require.LessOrEqual(t, answers*answer, 3*40*1000+pathAllowance)
}

// TestForgettingAnAddressCostsMore: an attacker that has an address forgotten,
// by packets from many others, gains less than those took.
func TestForgettingAnAddressCostsMore(t *testing.T) {
	p, now := NewPaths(), time.Unix(1e9, 0)
	var in, out int
	for round := range 10 {
		for ask(p, at("10.0.0.1", 1), now) {
			in, out = in+40, out+answer
		}
		for i := range 2*maxPaths + 1 {
			in += 40
			other := netip.AddrFrom4([4]byte{11, byte(round), byte(i >> 8), byte(i)})
			p.Received(netip.AddrPortFrom(other, 1), ConnID{}, 40, now)
		}
	}
	require.Greater(t, out, 2*pathAllowance, "it was forgotten")
	require.LessOrEqual(t, out, in)
}

// TestACrowdBehindOneAddressJoins: each handshake may be sent what is its own,
// whatever others have used up, and no more than joining of it.
func TestACrowdBehindOneAddressJoins(t *testing.T) {
	p, now := NewPaths(), time.Unix(1e9, 0)
	for p.Spend(at("10.0.0.1", 1), 100, now) {
	}
	for port := range uint16(500) {
		p.Begin(at("10.0.0.1", 100+port), true, now)
		for range handshakeAllowance / 100 {
			require.True(t, p.Spend(at("10.0.0.1", 100+port), 100, now))
		}
		require.False(t, p.Spend(at("10.0.0.1", 100+port), 100, now))
		p.End(at("10.0.0.1", 100+port))
	}
	require.Empty(t, p.handshakes)
}

// TestForgedHandshakesAreFew: an address from which some handshakes have begun without a proof
// must prove itself, until it is quiet for a while. One that has proven itself counts for nothing.
func TestForgedHandshakesAreFew(t *testing.T) {
	p, now := NewPaths(), time.Unix(1e9, 0)
	from := func(port int) netip.AddrPort { return at("10.0.0.1", uint16(port)) }
	for port := range 100 {
		p.Begin(from(port), true, now)
	}
	for range 3 {
		for port := range maxUnproven {
			require.False(t, p.MustProve(from(port)))
			p.Begin(from(port), false, now)
		}
		require.True(t, p.MustProve(from(7)), "whatever the port")
		require.False(t, p.MustProve(at("10.0.0.2", 7)))
		now = now.Add(pathTime)
		p.Received(at("10.0.0.2", 7), ConnID{}, 40, now)
		require.True(t, p.MustProve(from(7)), "remembered for that long")
		now = now.Add(2 * pathTime)
		p.Received(at("10.0.0.2", 7), ConnID{}, 40, now)
		now = now.Add(pathTime)
		p.Received(at("10.0.0.2", 7), ConnID{}, 40, now)
	}
	for range 100 {
		p.Begin(netip.AddrPort{}, false, now)
	}
	require.False(t, p.MustProve(netip.AddrPort{}), "no IP address")
}
