package desk

import (
	"net"
	"net/netip"
	"slices"

	"github.com/quivernet/quiver/rpc"
)

// maxGuests bounds the guests that are in at once. They need no token, and the world's other places are for users.
const maxGuests = 128

// guests are who is in without a token; whoever came first stands first. The world's goroutine owns them.
type guests struct {
	most int
	in   []guest
}

type guest struct {
	conn *rpc.Conn
	host string
}

// enter takes a guest in, and returns who has to make room: of the host that has most, the one that came first. So who comes from one
// host again and again sends nobody else away.
func (g *guests) enter(c *rpc.Conn, host string) (out *rpc.Conn) {
	g.in = append(g.in, guest{c, host})
	if len(g.in) <= g.most {
		return nil
	}
	has := make(map[string]int)
	for _, v := range g.in {
		has[v.host]++
	}
	first := g.in[0]
	for _, v := range g.in {
		if has[v.host] > has[first.host] {
			first = v
		}
	}
	g.leave(first.conn)
	return first.conn
}

// leave forgets a guest, if it is one.
func (g *guests) leave(c *rpc.Conn) {
	g.in = slices.DeleteFunc(g.in, func(v guest) bool { return v.conn == c })
}

// hostOf returns what an address shares with the others of its holder: an IPv4 address, or the /64 of an IPv6 one; nothing over a carrier
// without addresses.
func hostOf(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return ""
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}
