package bunch

// A readyList holds messages in order, in blocks. A block is free as soon as its messages were taken, and growing
// the list moves no message.
type readyList struct {
	blocks   queue[*readyBlock] // oldest first
	from, to int                // indexes of the oldest message, in the first block, and of the next free place, in the last one
	n        int
	spare    spares[*readyBlock]
}

// maxReadySpare is how many blocks are kept for reuse: 576 messages of a tick.
const maxReadySpare = 32

// A readyBlock is as large as a size class of Go's allocator, 1,152 bytes, so that no memory is wasted.
type readyBlock [18]Message

func (r *readyList) len() int       { return r.n }
func (r *readyList) peek() *Message { return &r.blocks.at(0)[r.from] }

func (r *readyList) push(m *Message) {
	if r.blocks.len() == 0 || r.to == len(readyBlock{}) {
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
		i += r.from
		if !yield(&r.blocks.at(i / len(readyBlock{}))[i%len(readyBlock{})]) {
			return
		}
	}
}

// pop moves the oldest message to m, and the first block to spare once it is empty. If the list is empty, pop also frees the memory
// of the queue, if that had room for more than maxReadySpare blocks.
func (r *readyList) pop(m *Message) {
	oldest := r.peek()
	*m, *oldest = *oldest, Message{}
	r.from++
	if r.n--; r.n == 0 || r.from == len(readyBlock{}) {
		r.spare.put(r.blocks.pop())
		r.from = 0
	}
	if r.n == 0 && cap(r.blocks.items) > maxReadySpare {
		r.blocks.release()
	}
}
