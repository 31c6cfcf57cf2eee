package budget

import (
	"sync"
	"sync/atomic"
)

// A Stock is a memory budget for content that a world's outgoing transfers have read, and that
// waits for the next tick or for the peer's ack. It is safe for concurrent use.
//
// Each transfer may always hold least bytes. Beyond that, it may hold no more than are free, so n
// transfers that all want more end up with one part in n+1 each, and one part is left for the next.
// A few transfers aren't slowed down at all, and none has to wait for another to end.
//
// Half of the stock is reserved for connections whose peers acknowledge what they are sent. Content
// that may not be sent yet gets none of it. A connection that holds more than its peer has ever
// acknowledged gets a small part of what is free, besides the least of its transfers. In this way,
// receivers that don't read or don't acknowledge leave most of that half to others.
type Stock struct {
	most  int64        // what all transfers may hold together, not counting least
	least int64        // what each transfer may hold, whatever the others do
	used  atomic.Int64 // can be more than most
}

// NewStock returns a stock of most bytes. Each transfer may always hold least bytes.
func NewStock(most, least int64) *Stock { return &Stock{most: most, least: least} }

// Used returns how many bytes the transfers hold.
func (s *Stock) Used() int64 { return s.used.Load() }

// free returns how many bytes are left, and never less than 0.
func (s *Stock) free() int64 { return max(0, s.most-s.used.Load()) }

// kept returns how many bytes are reserved for connections whose peers acknowledge what they are
// sent.
func (s *Stock) kept() int64 { return s.most / 2 }

// A StockAccount is what one connection holds of the world's stock. It is safe for concurrent
// use. Its lock is taken after all others.
type StockAccount struct {
	stock *Stock

	acked atomic.Int64 // how much the peer has acknowledged since the connection began, in bytes

	mu     sync.Mutex // guards the fields below
	bytes  int64
	closed bool
}

// NewAccount returns an account for a connection that holds nothing yet.
func (s *Stock) NewAccount() *StockAccount { return &StockAccount{stock: s} }

// Limit returns how many bytes the connection, or any of its transfers, may hold now of content
// that may be sent.
func (s *StockAccount) Limit() int64 {
	free := s.stock.free()
	if free <= s.stock.kept() && !s.proven() {
		// We are down to the reserved half, and this peer has yet to show that it acknowledges.
		free /= newcomers
	}
	return max(s.stock.least, free)
}

// newcomers is how many connections with little acknowledged share half of the reserved half.
// With this, each connection of a crowd begins with more than the least, and a hundred
// connections that never acknowledge anything leave a quarter of that half.
const newcomers = 32

// Acked is called when the peer has acknowledged n bytes, which the connection then no longer
// holds.
func (s *StockAccount) Acked(n int64) { s.acked.Add(n) }

// proven reports whether the peer has acknowledged more than the connection holds.
func (s *StockAccount) proven() bool { return s.Bytes() < s.acked.Load() }

// Bytes returns how many bytes the connection holds.
func (s *StockAccount) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Add adds n bytes, or removes some if n is negative.
func (s *StockAccount) Add(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.bytes += n
		s.stock.used.Add(n)
	}
}

// Close returns everything to the stock. If some memory is still in use, it is freed with its
// connection.
func (s *StockAccount) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.stock.used.Add(-s.bytes)
	}
}

// A Holding is what one transfer holds of the stock. That's its blocks, from when they are read
// until they are freed, whichever goroutine does that.
type Holding struct {
	account *StockAccount
	bytes   atomic.Int64
	freed   func() // called after each Give, on the same goroutine; must not block
}

// NewHolding returns the holding of a transfer that has read nothing yet.
func NewHolding(account *StockAccount, freed func()) *Holding {
	return &Holding{account: account, freed: freed}
}

// Bytes returns how many bytes the transfer holds.
func (h *Holding) Bytes() int64 { return h.bytes.Load() }

// Room reports whether another block may be read. mayLeave tells whether the receiver's credit
// allows us to send it at once.
func (h *Holding) Room(mayLeave bool) bool {
	if mayLeave {
		return h.Bytes() < h.account.Limit()
	}
	return h.Bytes() < h.account.stock.free()-h.account.stock.kept()
}

// Acked is called when the peer has acknowledged n bytes (see [StockAccount.Acked]).
func (h *Holding) Acked(n int64) { h.account.Acked(n) }

// Take adds n bytes to what the transfer holds.
func (h *Holding) Take(n int64) {
	h.bytes.Add(n)
	h.account.Add(n)
}

// Give removes n bytes, because they were freed.
func (h *Holding) Give(n int64) {
	h.bytes.Add(-n)
	h.account.Add(-n)
	h.freed()
}
