package stream

// newRoom returns an account that may hold so many bytes, without credit, and receivers' own records.
func newRoom(bytes int64) *account {
	return &account{world: newBudget(1 << 40), floor: 1 << 40, early: bytes}
}

// drain takes the messages and releases them.
func (b *sliceInbox) drain() [][]byte {
	whole := b.take()
	for _, m := range whole {
		b.release(m)
	}
	return whole
}
