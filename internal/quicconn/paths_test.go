package quicconn

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/udp"
)

// TestPathsLearnWhereConnectionsAre: an address to which a connection has moved, as
// QUIC knows once it is proven, is free within renewPause, and the previous one is not.
func TestPathsLearnWhereConnectionsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		small, full, long := make([]byte, 40), make([]byte, 1200), []byte{0xc0, 1, 2, 3}
		small[0], full[0] = 0x40, 0x40
		before, after := &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7}, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 7}
		warned, remotes := 0, []net.Addr{before}
		p := NewPaths(func(net.Addr) { warned++ })
		p.Prove(before)
		p.Follow(func(yield func(uint64, net.Addr) bool) { yield(1, remotes[0]) })
		answers := func(to net.Addr) (n int) {
			for range 100 {
				p.Received(udp.AddrPort(to), small)
				if _, ok := p.Route(to, full); ok {
					n++
				}
			}
			return n
		}
		require.Equal(t, 100, answers(before))
		require.Less(t, answers(after), 30, "nobody has proven it")
		require.Greater(t, warned, 70)
		p.Received(udp.AddrPort(after), long)
		require.True(t, may(p, after, long), "of a handshake, which QUIC bounds itself")
		require.Equal(t, 100, answers(before), "the look that was in vain has forgotten nothing")

		remotes[0] = after
		time.Sleep(renewPause)
		require.Equal(t, 100, answers(after))
		require.Less(t, answers(before), 30)
	})
}

func may(p *Paths, to net.Addr, packet []byte) bool {
	_, ok := p.Route(to, packet)
	return ok
}

// TestPathsForgetConnectionsThatAreGone: the memory of proven addresses does
// not grow with all clients that ever connected.
func TestPathsForgetConnectionsThatAreGone(t *testing.T) {
	p := NewPaths(func(net.Addr) {})
	p.Follow(func(yield func(uint64, net.Addr) bool) {
		yield(1, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7})
	})
	for port := range 10_000 {
		p.Prove(&net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: port})
		require.LessOrEqual(t, p.limit.Proven(), 2*1+spareProven+1)
	}
}

// TestPathsNoticeEachMove: a client that moves back and forth, and to which QUIC sends little,
// because the rest is sealed, is answered at each move. It used up its allowance before, because
// its address was looked up only after something was held back, and was cut off for half a second.
func TestPathsNoticeEachMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		packet := func(size int) []byte { return append([]byte{0x40}, make([]byte, size-1)...) }
		remotes := []net.Addr{&net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7}}
		p := NewPaths(func(net.Addr) {})
		p.Prove(remotes[0])
		p.Follow(func(yield func(uint64, net.Addr) bool) { yield(1, remotes[0]) })
		for move := range 100 {
			to := &net.UDPAddr{IP: net.IPv4(10, 0, 0, byte(1+move%2)), Port: 7}
			p.Received(udp.AddrPort(to), packet(40))
			require.True(t, may(p, to, packet(1200)), "move %d", move)
			time.Sleep(50 * time.Millisecond)
			remotes = []net.Addr{to}
			require.True(t, may(p, to, packet(60)))
			time.Sleep(time.Second)
		}
	})
}
