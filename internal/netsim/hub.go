package netsim

// A Hub is a socket that others join, as clients join a server. Each has links
// of its own, which share one bottleneck in each direction.
type Hub struct {
	*PacketConn
	way    Config // of the links in each direction
	joined []*PacketConn
}

// NewHub returns a hub with links of the given Config in each direction. It
// panics if that is not valid.
func NewHub(way Config) *Hub {
	way.mustValidate()
	return &Hub{PacketConn: NewPacketConn(), way: way}
}

// Join returns a new socket that is joined to the hub. Its seed is one above that of the socket
// before, so that its packets have other fates. Join and Stats must not be called concurrently.
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

// Stats returns the sums of all links, in both directions.
func (h *Hub) Stats() (s Stats) {
	for _, c := range h.joined {
		s = s.Add(c.To(h.PacketConn).Stats()).Add(h.To(c).Stats())
	}
	return s
}
