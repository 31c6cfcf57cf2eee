package stream

import (
	"sync"
	"sync/atomic"
)

const (
	// stockShare is the part of Config.MaxMemory that outgoing content may take: 32 MiB by default, the products of a hundred
	// paths of 50 Mbit/s and 50 ms.
	stockShare = 8
	// leastStock is what a transfer may have of it whatever the others have, so that none waits for another: a part that leaves
	// while the next one is read.
	leastStock = 2 * blockBytes
)

// stock is what a world has read for its outgoing transfers and not got rid of, in bytes of memory: content that waits for
// the tick, or for the peer to acknowledge it. Who holds more than leastStock takes more only while it has less than what is
// free. So n of them that all want more come to rest at one part of n+1 each and leave one to whoever comes next, a few are
// not held up at all, and nobody waits for another to end. It is safe from any goroutine.
type stock struct {
	most int64
	used atomic.Int64
}

func newStock(bytes int64) *stock { return &stock{most: bytes} }

// free is how many bytes are left, not below zero.
func (s *stock) free() int64 { return max(0, s.most-s.used.Load()) }

// limit is how much one transfer or connection may hold now.
func (s *stock) limit() int64 { return max(leastStock, s.free()) }

// stockAccount is what one connection has of its world's stock. It is safe from any goroutine, and taken after all other locks.
type stockAccount struct {
	stock *stock

	mu     sync.Mutex
	bytes  int64
	closed bool
}

// add notes n more bytes; negative ones are gone.
func (s *stockAccount) add(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.bytes += n
		s.stock.used.Add(n)
	}
}

// close returns all: what is still held goes with its connection.
func (s *stockAccount) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.stock.used.Add(-s.bytes)
	}
}

// holding is the blocks of one transfer, from when they were read until they are freed, by whatever goroutine.
type holding struct {
	account *stockAccount
	bytes   atomic.Int64
	freed   func() // called after each block; it must not block
}

// room reports whether one more block may be read.
func (h *holding) room() bool { return h.bytes.Load() < h.account.stock.limit() }

// take notes that the transfer has a block, until that is freed.
func (h *holding) take(c *block) {
	c.holder, c.held = h, c.cost()
	h.bytes.Add(c.held)
	h.account.add(c.held)
}

// give notes that so many bytes are gone.
func (h *holding) give(n int64) {
	h.bytes.Add(-n)
	h.account.add(-n)
	h.freed()
}
