package door

import "slices"

// Claims knows the connections of each identity. C is the type of a connection.
type Claims[C any] struct {
	limit      int             // how many connections an identity may have; 0 if there is no limit
	refuse     bool            // at the limit, refuse the new connection rather than replace the oldest
	byIdentity map[string][]*C // oldest first
}

// NewClaims returns Claims without connections. limit is rpc.Config.MaxConnsPerIdentity, and
// refuse is rpc.Config.RefuseLoginElsewhere.
func NewClaims[C any](limit int, refuse bool) *Claims[C] {
	return &Claims[C]{limit: limit, refuse: refuse, byIdentity: make(map[string][]*C)}
}

// Claim adds c to its identity's connections, unless it refuses c. It returns the connections that
// c replaces, oldest first, and how many others the identity had. It is a no-op if c was added
// before or has no identity.
func (t *Claims[C]) Claim(identity string, c *C) (replaced []*C, others int, refused bool) {
	have := t.byIdentity[identity]
	if t.limit <= 0 || identity == "" || slices.Contains(have, c) {
		return nil, 0, false
	}
	excess := len(have) + 1 - t.limit
	if excess > 0 && t.refuse {
		return nil, len(have), true
	}
	t.byIdentity[identity] = append(have, c)
	return slices.Clone(have[:max(0, excess)]), len(have), false
}

// Disclaim removes c from its identity's connections, if it is one of them.
func (t *Claims[C]) Disclaim(identity string, c *C) {
	remaining := slices.DeleteFunc(t.byIdentity[identity], func(other *C) bool { return other == c })
	t.byIdentity[identity] = remaining
	if len(remaining) == 0 {
		delete(t.byIdentity, identity)
	}
}
