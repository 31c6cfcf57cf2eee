package netsim

// A Hub is a socket that others join, as clients join a server. Each joined socket has its
// own links. All links in one direction share a bottleneck.
type Hub struct {
	*PacketConn
	way    Config // configuration of the links in each direction
	joined []*PacketConn
}

// NewHub returns a hub whose links all have the given Config. It panics if the Config is not
// valid.
func NewHub(way Config) *Hub {
	way.mustValidate()
	return &Hub{PacketConn: NewPacketConn(), way: way}
}

// Join returns a new socket joined to the hub. Its seed is one above that of the previous
// socket, so its packets have different fates. Join and Stats must not be called
// concurrently.
func (h *Hub) Join() *PacketConn {
	c := NewPacketConn()
	way := h.way
	way.Seed += uint64(len(h.joined))
	Connect(c, h.PacketConn, way, way)
	h.joined = append(h.joined, c)
	if len(h.joined) > 1 {
		Share(h.joined[0].To(h.PacketConn), c.To(h.PacketConn))
		Share(h.To(h.joined[0]), h.To(c))
	}
	return c
}

// Stats returns the sums over all links in both directions.
func (h *Hub) Stats() (s Stats) {
	for _, c := range h.joined {
		s = s.Add(c.To(h.PacketConn).Stats()).Add(h.To(c).Stats())
	}
	return s
}
