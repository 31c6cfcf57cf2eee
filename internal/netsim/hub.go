package netsim

// Hub is a socket that others join, as clients do a server: each over links of its own, which share one bottleneck each way.
type Hub struct {
	*PacketConn
	way    Config
	joined []*PacketConn
}

// NewHub returns a hub whose links have a Config each way. It panics when that is not valid.
func NewHub(way Config) *Hub {
	way.mustValidate()
	return &Hub{PacketConn: NewPacketConn(), way: way}
}

// Join returns a new socket that is joined to the hub. Its packets have other fates than those of the socket before: its seed is the next one.
// One goroutine at a time may call it, and Stats.
func (h *Hub) Join() *PacketConn {
	c, way := NewPacketConn(), h.way
	way.Seed += uint64(len(h.joined))
	Connect(c, h.PacketConn, way, way)
	if h.joined = append(h.joined, c); len(h.joined) > 1 {
		Share(h.joined[0].To(h.PacketConn), c.To(h.PacketConn))
		Share(h.To(h.joined[0]), h.To(c))
	}
	return c
}

// Stats returns what all links did, both ways.
func (h *Hub) Stats() (s Stats) {
	for _, c := range h.joined {
		s = s.Add(c.To(h.PacketConn).Stats()).Add(h.To(c).Stats())
	}
	return s
}
