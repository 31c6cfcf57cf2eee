package door

import "slices"

// Claims records the connections of each identity. C is the connection type.
type Claims[C any] struct {
	limit  int             // maximum connections of an identity; 0 = no limit
	refuse bool            // refuse a new connection beyond the limit instead of replacing the oldest
	of     map[string][]*C // oldest first
}

// NewClaims returns Claims without connections. limit is rpc.Config.MaxConnsPerIdentity, and
// refuse is rpc.Config.RefuseLoginElsewhere.
func NewClaims[C any](limit int, refuse bool) *Claims[C] {
	return &Claims[C]{limit: limit, refuse: refuse, of: make(map[string][]*C)}
}

// Claim makes c one of its identity's connections or refuses it. It returns the connections
// that c replaces, oldest first, and the number of other connections the identity had. If c
// has claimed already or the identity is empty, Claim does nothing.
func (t *Claims[C]) Claim(identity string, c *C) (replaced []*C, others int, refused bool) {
	have := t.of[identity]
	if t.limit <= 0 || identity == "" || slices.Contains(have, c) {
		return nil, 0, false
	}
	more := len(have) + 1 - t.limit
	if more > 0 && t.refuse {
		return nil, len(have), true
	}
	t.of[identity] = append(have, c)
	return slices.Clone(have[:max(0, more)]), len(have), false
}

// Disclaim removes the claim of c, if it has one.
func (t *Claims[C]) Disclaim(identity string, c *C) {
	left := slices.DeleteFunc(t.of[identity], func(other *C) bool { return other == c })
	t.of[identity] = left
	if len(left) == 0 {
		delete(t.of, identity)
	}
}
