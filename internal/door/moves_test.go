package door

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// TestCopiesFollowAClient: packets for the proven address are also sent to where the client's
// packets arrive from, until they arrive from the proven one again; and if a connection has
// moved, and its client to a third address meanwhile, from the one to the other.
func TestCopiesFollowAClient(t *testing.T) {
	p, now := NewPaths(), time.Unix(1e9, 0)
	first, second, third := at("10.0.0.1", 7), at("10.0.0.2", 7), at("10.0.0.3", 7)
	id := ConnID{1}
	copied := func(to netip.AddrPort) netip.AddrPort {
		also, ok := p.SpendCopy(to, 60, now)
		if !ok {
			return netip.AddrPort{}
		}
		return also
	}
	p.Renew(connsAt(first))
	p.Received(first, id, 60, now)
	require.Zero(t, copied(first))
	p.Received(third, ConnID{2}, 60, now)
	require.Zero(t, copied(first), "of another connection, or forged")
	p.Received(second, id, 60, now)
	require.Equal(t, second, copied(first))
	p.Received(first, id, 60, now)
	require.Zero(t, copied(first), "it is back")
	require.False(t, p.Moving())

	p.Received(second, id, 60, now)
	p.Received(first, id, 60, now)
	p.Renew(connsAt(second))
	p.Received(third, id, 60, now)
	require.Equal(t, third, copied(second), "nothing has come from the second address since it is proven")
	p.Renew(connsAt())
	require.Empty(t, p.conns)
	require.Empty(t, p.homes)
	require.Empty(t, p.byID)
	require.False(t, p.Moving())
}

// TestCopiesFollowClientsThatSwap their addresses, as those of one NAT may,
// whichever is seen first.
func TestCopiesFollowClientsThatSwap(t *testing.T) {
	p, now := NewPaths(), time.Unix(1e9, 0)
	first, second, third := at("10.0.0.1", 7), at("10.0.0.1", 8), at("10.0.0.1", 9)
	p.Renew(connsAt(first, second))
	p.Received(first, ConnID{1}, 60, now)
	p.Received(second, ConnID{2}, 60, now)
	p.Renew(connsAt(second, first))
	p.Received(third, ConnID{1}, 60, now)
	also, ok := p.SpendCopy(second, 60, now)
	require.True(t, ok)
	require.Equal(t, third, also)
	_, ok = p.SpendCopy(first, 60, now)
	require.False(t, ok, "of the other one")
}

// TestCopiesAreBounded: copies are within what may be sent to an unproven
// address, and leave enough to prove it, whatever is sent to the proven one. No
// record is kept for each address that a client invents.
func TestCopiesAreBounded(t *testing.T) {
	random := testkit.Rand(t)
	p, now := NewPaths(), time.Unix(1e9, 0)
	home, away := at("10.0.0.1", 7), at("10.0.0.2", 7)
	p.Renew(connsAt(home))
	p.Received(home, ConnID{1}, 60, now)
	var in, out int
	for range 10_000 {
		in += 60
		p.Received(away, ConnID{1}, 60, now)
		for range 5 {
			if size := 1 + random.IntN(1400); p.Moving() {
				if _, ok := p.SpendCopy(home, size, now); ok {
					out += size
				}
			}
		}
		require.LessOrEqual(t, out, 3*in+pathAllowance)
	}
	require.Greater(t, out, 2*in)
	require.True(t, p.Spend(away, answer, now), "a PATH_CHALLENGE")
	for port := range uint16(1000) {
		p.Received(at("10.0.0.2", 1000+port), ConnID{1}, 60, now)
	}
	require.Len(t, p.homes, 1)
	require.Len(t, p.byID, 1)
	require.Equal(t, 1, p.moved)
}

// TestCopiesToManyAddressesAreBounded: a client that forges the addresses of a whole network,
// each by a packet of the least size and with any connection id of his, has no more copied
// there than mostCopied. It was 333 times what he sent, half of the allowance of each address.
func TestCopiesToManyAddressesAreBounded(t *testing.T) {
	p, now := NewPaths(), time.Unix(1e9, 0)
	home := at("10.0.0.1", 7)
	p.Renew(connsAt(home))
	var in, out int
	for i := range 5000 {
		now = now.Add(time.Millisecond)
		id := ConnID{byte(i), byte(i >> 8)}
		p.Received(home, id, 18, now)
		victim := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 6: byte(i >> 8), 7: byte(i)})
		in += 18
		p.Received(netip.AddrPortFrom(victim, 9), id, 18, now)
		for range 10 {
			if _, ok := p.SpendCopy(home, answer, now); ok {
				out += answer
			}
		}
		p.Renew(connsAt(home))
	}
	require.LessOrEqual(t, out, amplification*in+maxCopied)
	require.Greater(t, out, maxCopied)
	p.Renew(connsAt())
	require.Empty(t, p.homes)
}

// TestNothingIsRememberedOfClientsThatAreGone: neither of those that were seen
// at their address, nor of those that connected and left in between.
func TestNothingIsRememberedOfClientsThatAreGone(t *testing.T) {
	p, now := NewPaths(), time.Unix(1e9, 0)
	for port := range uint16(1000) {
		p.Prove(at("10.0.0.1", port))
		p.Received(at("10.0.0.1", port), ConnID{byte(port), byte(port >> 8)}, 60, now)
	}
	require.Len(t, p.homes, 1000)
	require.Len(t, p.byID, 1000)
	p.Renew(connsAt(at("10.0.0.1", 7)))
	require.Len(t, p.homes, 1)
	require.Len(t, p.byID, 1)
	require.Len(t, p.conns, 1)
	p.Received(at("10.0.0.1", 8), ConnID{7}, 60, now)
	also, ok := p.SpendCopy(at("10.0.0.1", 7), 60, now)
	require.True(t, ok)
	require.Equal(t, at("10.0.0.1", 8), also)
}
