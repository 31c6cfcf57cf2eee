package netsim

// A Hub is a socket that others join, as clients join a server. Each joined socket has links of its
// own, but all links in one direction share a bottleneck.
type Hub struct {
	*PacketConn
	cfg    Config // of the links in each direction
	joined []*PacketConn
}

// NewHub returns a hub whose links all have the given Config. It panics if the Config is invalid.
func NewHub(cfg Config) *Hub {
	cfg.mustValidate()
	return &Hub{PacketConn: NewPacketConn(), cfg: cfg}
}

// Join returns a new socket joined to the hub. The seed of its links is one above that of the
// previous socket's, so that its packets have different fates. Join and Stats must not be called
// concurrently.
func (h *Hub) Join() *PacketConn {
	c := NewPacketConn()
	cfg := h.cfg
	cfg.Seed += uint64(len(h.joined))
	Connect(c, h.PacketConn, cfg, cfg)
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
