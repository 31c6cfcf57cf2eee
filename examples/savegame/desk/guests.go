package desk

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/quivernet/quiver/rpc"
)

// maxGuests bounds the guests that are connected at once. They need no token, so the world's other places are kept for users.
const maxGuests = 128

// guests are the clients without a token, in the order in which they came. The world's goroutine owns them.
type guests struct {
	most int
	in   []guest
}

type guest struct {
	conn *rpc.Conn
	host string
}

// enter adds a guest. When there are too many it removes and returns one: the first of the host that has most. So a host that sends many
// guests makes no other host's guests leave.
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

// hostOf names the holder of an address: an IPv4 address, or the /64 of an IPv6 one. It is empty over a carrier without addresses.
func hostOf(addr net.Addr) string {
	at, err := netip.ParseAddrPort(fmt.Sprint(addr))
	if err != nil {
		return ""
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}
