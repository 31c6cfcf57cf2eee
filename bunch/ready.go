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

func (l *readyList) len() int       { return l.n }
func (l *readyList) peek() *Message { return &l.first.messages[l.from] }

func (l *readyList) push(m *Message) {
	if l.last == nil || l.to == len(l.last.messages) {
		l.grow()
	}
	l.last.messages[l.to] = *m
	l.to++
	l.n++
}

func (l *readyList) grow() {
	b := l.spare.take()
	if b == nil {
		b = new(readyBlock)
	}
	if l.last == nil {
		l.first, l.from = b, 0
	} else {
		l.last.next = b
	}
	l.last, l.to = b, 0
}

// each yields the messages, the oldest first.
func (l *readyList) each(yield func(*Message) bool) {
	for b, from, left := l.first, l.from, l.n; left > 0; b, from = b.next, 0 {
		for i := from; i < len(b.messages) && left > 0; i++ {
			if left--; !yield(&b.messages[i]) {
				return
			}
		}
	}
}

// pop moves the oldest message to m.
func (l *readyList) pop(m *Message) {
	oldest := l.peek()
	*m, *oldest = *oldest, Message{}
	l.from++
	if l.n--; l.n == 0 || l.from == len(l.first.messages) {
		l.shrink()
	}
}

// shrink lets go of the first block, which is empty.
func (l *readyList) shrink() {
	b := l.first
	l.first, l.from = b.next, 0
	if l.first == nil {
		l.last = nil
	}
	b.next = nil
	l.spare.put(b)
}
