package vital

// A ring stores byte strings that are freed in the order in which they were put. Each
// string is contiguous.
type ring struct {
	buf   []byte // nil until the first put
	limit int    // size of buf
	head  int    // start of the oldest string
	used  int    // bytes in use from head on, including gaps
}

// A span is the position of a string in a ring.
type span struct {
	at   int
	size int
	cost int // bytes that free releases: size, and the gap skipped before the string
}

// put copies data into the ring. ok is false if there is no room for it now.
func (r *ring) put(data []byte) (s span, ok bool) {
	if r.used == 0 {
		r.head = 0
	}
	at, cost := r.head+r.used, len(data)
	if at >= r.limit {
		at -= r.limit
	}
	if at+len(data) > r.limit {
		cost += r.limit - at
		at = 0
	}
	if r.used+cost > r.limit {
		return span{}, false
	}
	if r.buf == nil {
		r.buf = make([]byte, r.limit)
	}
	copy(r.buf[at:], data)
	r.used += cost
	return span{at, len(data), cost}, true
}

// bytes returns the string at s.
func (r *ring) bytes(s span) []byte { return r.buf[s.at : s.at+s.size : s.at+s.size] }

// free frees the oldest string.
func (r *ring) free(s span) {
	r.used -= s.cost
	r.head += s.cost
	if r.head >= r.limit {
		r.head -= r.limit
	}
}
