package vital

// ring is storage for byte strings that are freed in the order of their making. Each lies in one piece.
type ring struct {
	buf   []byte
	limit int
	head  int
	used  int
}

// span is where a string lies, and what is freed with it.
type span struct {
	at, size, cost int
}

// put copies data into the ring. ok is false when there is no room for it now.
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

// free gives back the oldest string.
func (r *ring) free(s span) {
	r.used -= s.cost
	r.head += s.cost
	if r.head >= r.limit {
		r.head -= r.limit
	}
}

// queue is a first-in, first-out list that keeps its storage.
type queue[T any] struct {
	items []T
	head  int
	len   int
}

func (q *queue[T]) push(v T) {
	if q.len == len(q.items) {
		items := make([]T, max(8, 2*q.len))
		for i := range q.len {
			items[i] = *q.at(i)
		}
		q.items, q.head = items, 0
	}
	q.len++
	*q.at(q.len - 1) = v
}

// at returns the i-th from the head. The length of items is a power of two.
func (q *queue[T]) at(i int) *T { return &q.items[(q.head+i)&(len(q.items)-1)] }

func (q *queue[T]) pop() T {
	v := *q.at(0)
	q.head = (q.head + 1) & (len(q.items) - 1)
	q.len--
	return v
}
