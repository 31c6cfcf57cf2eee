package bunch

// readyList holds messages in order, in blocks. A block whose messages were fetched is free at once, and growing moves nothing.
type readyList struct {
	first, last *readyBlock // nil when empty
	from, to    int         // index of the oldest message in first, and of the next free place in last
	n           int
	spare       spares[*readyBlock]
}

// maxReadySpare is how many blocks are kept for reuse: a tick's 576 messages.
const maxReadySpare = 32

// readyBlock is as large as a size class of Go's allocator: 1 KiB.
type readyBlock struct {
	messages [18]Message
	next     *readyBlock
}

func (r *readyList) len() int       { return r.n }
func (r *readyList) peek() *Message { return &r.first.messages[r.from] }

func (r *readyList) push(m *Message) {
	if r.last == nil || r.to == len(r.last.messages) {
		r.grow()
	}
	r.last.messages[r.to] = *m
	r.to++
	r.n++
}

func (r *readyList) grow() {
	b := r.spare.take()
	if b == nil {
		b = new(readyBlock)
	}
	if r.last == nil {
		r.first, r.from = b, 0
	} else {
		r.last.next = b
	}
	r.last, r.to = b, 0
}

// each yields the messages, the oldest first.
func (r *readyList) each(yield func(*Message) bool) {
	for b, from, left := r.first, r.from, r.n; left > 0; b, from = b.next, 0 {
		for i := from; i < len(b.messages) && left > 0; i++ {
			if left--; !yield(&b.messages[i]) {
				return
			}
		}
	}
}

// pop moves the oldest message to m.
func (r *readyList) pop(m *Message) {
	oldest := r.peek()
	*m, *oldest = *oldest, Message{}
	r.from++
	if r.n--; r.n == 0 || r.from == len(r.first.messages) {
		r.shrink()
	}
}

// shrink lets go of the first block, which is empty.
func (r *readyList) shrink() {
	b := r.first
	r.first, r.from = b.next, 0
	if r.first == nil {
		r.last = nil
	}
	b.next = nil
	r.spare.put(b)
}
