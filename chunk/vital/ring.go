package vital

// A ring is storage for byte strings that are freed in the order in which they
// were put. Each is contiguous.
type ring struct {
	buf   []byte
	limit int
	head  int
	used  int
}

// A span is the position of a string, and how much is freed with it.
type span struct {
	at, size, cost int
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

func (r *ring) bytes(s span) []byte { return r.buf[s.at : s.at+s.size : s.at+s.size] }

// free frees the oldest string.
func (r *ring) free(s span) {
	r.used -= s.cost
	r.head += s.cost
	if r.head >= r.limit {
		r.head -= r.limit
	}
}
