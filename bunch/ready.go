package bunch

// readyList holds messages in order, in blocks: what is fetched makes room at once, and nothing is moved when it grows.
type readyList struct {
	first, last *readyBlock // nil when empty
	from, to    int         // the oldest in first, the next free in last
	n           int
	spare       spares[*readyBlock]
}

// maxReadySpare is how many blocks are kept for reuse: a tick's 576 messages.
const maxReadySpare = 32

// readyBlock fills a kibibyte, the size that the allocator gives it.
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
