package budget

import (
	"sync"
	"sync/atomic"
)

// A Stock is a memory budget for the content that a world's outgoing transfers have read.
// The content waits in memory for the next tick or for the peer's ack. A Stock is safe
// for concurrent use.
//
// Each transfer may always hold a minimum. Beyond that, it may hold at most as many bytes as are
// free, so n transfers that all want more end up with 1/(n+1) of the stock each, and the same share
// is left for the next transfer. That way a few transfers aren't slowed down at all, and no
// transfer has to wait for another to end.
//
// Half of the stock is reserved for connections whose peers acknowledge what they receive.
// Content that may not be sent yet can't use this half. A connection that holds more than its peer
// has ever acknowledged gets only a small part of the free bytes, in addition to the minimum of its
// transfers. Receivers that don't read or don't acknowledge therefore leave most of the reserved
// half to others.
type Stock struct {
	limit   int64        // bytes that all transfers may hold together, not counting their minimum
	minimum int64        // bytes that each transfer may always hold
	used    atomic.Int64 // can exceed limit
}

// NewStock returns a stock of limit bytes. Each transfer may always hold minimum bytes.
func NewStock(limit, minimum int64) *Stock { return &Stock{limit: limit, minimum: minimum} }

// Used returns the number of bytes that the transfers hold.
func (s *Stock) Used() int64 { return s.used.Load() }

// free returns the number of bytes that are left. It's never negative.
func (s *Stock) free() int64 { return max(0, s.limit-s.used.Load()) }

// kept returns the number of bytes reserved for connections whose peers acknowledge
// what they receive.
func (s *Stock) kept() int64 { return s.limit / 2 }

// A StockAccount tracks one connection's share of the world's stock. It is safe for concurrent
// use. Its lock is taken after all other locks.
type StockAccount struct {
	stock *Stock

	acked atomic.Int64 // bytes that the peer has acknowledged since the connection began

	mu     sync.Mutex // guards the fields below
	bytes  int64
	closed bool
}

// NewAccount returns an account for a connection that holds nothing yet.
func (s *Stock) NewAccount() *StockAccount { return &StockAccount{stock: s} }

// Limit returns the number of bytes that the connection, or any of its transfers, may now hold
// of content that may be sent.
func (s *StockAccount) Limit() int64 {
	free := s.stock.free()
	if free <= s.stock.kept() && !s.proven() {
		// Only the reserved half is left, and this peer has yet to show that it acknowledges.
		free /= newcomerShare
	}
	return max(s.stock.minimum, free)
}

// newcomerShare is the divisor of the free bytes for connections whose peers have yet to
// acknowledge what we send. With this number, each connection of a crowd begins with more than the
// minimum, and a hundred connections that never acknowledge anything leave a quarter of the
// reserved half.
const newcomerShare = 32

// Acked is called when the peer has acknowledged n bytes. The connection no longer
// holds these bytes.
func (s *StockAccount) Acked(n int64) { s.acked.Add(n) }

// proven reports whether the peer has acknowledged more than the connection holds.
func (s *StockAccount) proven() bool { return s.Bytes() < s.acked.Load() }

// Bytes returns the number of bytes that the connection holds.
func (s *StockAccount) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Add adds n bytes, or removes -n bytes if n is negative.
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

// A Holding tracks one transfer's share of the stock. It counts the transfer's blocks from when
// they are read until they are freed, on any goroutine.
type Holding struct {
	account *StockAccount
	bytes   atomic.Int64
	freed   func() // called after each Give, on the same goroutine; must not block
}

// NewHolding returns the Holding of a transfer that hasn't read anything yet.
func NewHolding(account *StockAccount, freed func()) *Holding {
	return &Holding{account: account, freed: freed}
}

// Bytes returns the number of bytes that the transfer holds.
func (h *Holding) Bytes() int64 { return h.bytes.Load() }

// Room reports whether another block may be read. mayLeave says whether the receiver's credit
// allows us to send the block at once.
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
