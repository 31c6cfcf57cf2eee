package bunch

// A readyList is a queue of messages that wait for the owner. It's made of blocks, so that it can
// grow without moving messages, and a block is freed as soon as its last message is taken.
type readyList struct {
	blocks queue[*readyBlock] // oldest first
	from   int                // index of the oldest message in the first block
	to     int                // index of the next free place in the last block
	n      int                // messages in all blocks
	spare  spares[*readyBlock]
}

const (
	// maxReadySpare is the maximum number of blocks that we keep for reuse. They have room for
	// 576 messages, which is a busy tick.
	maxReadySpare = 32

	// readyBlockLen is the number of messages in a block. A block takes 1,152 bytes, which is one
	// of the allocator's size classes, so that nothing is wasted.
	readyBlockLen = 18
)

type readyBlock [readyBlockLen]Message

func (r *readyList) len() int       { return r.n }
func (r *readyList) peek() *Message { return &r.blocks.at(0)[r.from] }

func (r *readyList) push(m *Message) {
	if r.blocks.len() == 0 || r.to == readyBlockLen {
		r.grow()
	}
	r.blocks.at(r.blocks.len() - 1)[r.to] = *m
	r.to++
	r.n++
}

// grow adds a block.
func (r *readyList) grow() {
	b := r.spare.take()
	if b == nil {
		b = new(readyBlock)
	}
	r.blocks.push(b)
	r.to = 0
}

// each yields the messages, oldest first.
func (r *readyList) each(yield func(*Message) bool) {
	for i := range r.n {
		place := r.from + i
		block := r.blocks.at(place / readyBlockLen)
		if !yield(&block[place%readyBlockLen]) {
			return
		}
	}
}

// pop removes the oldest message and copies it to m.
func (r *readyList) pop(m *Message) {
	oldest := r.peek()
	*m = *oldest
	*oldest = Message{}
	r.from++
	r.n--
	if r.n == 0 || r.from == readyBlockLen {
		r.spare.put(r.blocks.pop())
		r.from = 0
	}
	if r.n == 0 && r.blocks.cap() > maxReadySpare {
		// There were unusually many blocks, so don't keep the list of them.
		r.blocks.release()
	}
}
