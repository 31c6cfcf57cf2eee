package door

import "slices"

// Claims knows which connections each identity has. C is the type of a connection.
type Claims[C any] struct {
	limit      int             // how many connections an identity may have; 0 if any number
	refuse     bool            // beyond the limit, refuse the new connection rather than replace the oldest
	byIdentity map[string][]*C // oldest first
}

// NewClaims returns Claims without connections. limit is rpc.Config.MaxConnsPerIdentity, and
// refuse is rpc.Config.RefuseLoginElsewhere.
func NewClaims[C any](limit int, refuse bool) *Claims[C] {
	return &Claims[C]{limit: limit, refuse: refuse, byIdentity: make(map[string][]*C)}
}

// Claim makes c one of its identity's connections, unless it is refused. It returns the connections
// that c replaces, oldest first, and how many others the identity had. It is a no-op if c has made
// its claim already, or has no identity.
func (t *Claims[C]) Claim(identity string, c *C) (replaced []*C, others int, refused bool) {
	have := t.byIdentity[identity]
	if t.limit <= 0 || identity == "" || slices.Contains(have, c) {
		return nil, 0, false
	}
	more := len(have) + 1 - t.limit
	if more > 0 && t.refuse {
		return nil, len(have), true
	}
	t.byIdentity[identity] = append(have, c)
	return slices.Clone(have[:max(0, more)]), len(have), false
}

// Disclaim removes c from its identity's connections. It need not be one of them.
func (t *Claims[C]) Disclaim(identity string, c *C) {
	left := slices.DeleteFunc(t.byIdentity[identity], func(other *C) bool { return other == c })
	t.byIdentity[identity] = left
	if len(left) == 0 {
		delete(t.byIdentity, identity)
	}
}
