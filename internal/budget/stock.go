package budget

import (
	"sync"
	"sync/atomic"
)

// Stock limits the memory for content that a world's outgoing transfers have read. Such
// content waits for the tick or for the peer's ack. Stock is safe for concurrent use.
//
// Each transfer may hold least bytes, and more only while it holds less than is free. So n
// transfers that all want more end up with one part in n+1 each, which leaves one part for
// the next transfer. A few transfers are not delayed at all, and no transfer waits for
// another to end.
//
// Half of the stock is kept for connections whose peers acknowledge what they are sent.
// Content that may not be sent yet uses none of it. A connection that holds more than its
// peer has ever acknowledged uses only a small part of what is free, besides the least of its
// transfers. So receivers that do not read or do not acknowledge leave most of that half to
// others.
type Stock struct {
	most  int64        // maximum for all transfers together, except for least
	least int64        // minimum for each transfer, whatever the others hold
	used  atomic.Int64 // may exceed most
}

// NewStock returns a stock of most bytes. Each transfer may always hold least bytes.
func NewStock(most, least int64) *Stock { return &Stock{most: most, least: least} }

// Used returns the number of bytes the transfers hold.
func (s *Stock) Used() int64 { return s.used.Load() }

// free returns the number of bytes left, at least 0.
func (s *Stock) free() int64 { return max(0, s.most-s.used.Load()) }

// kept returns the number of bytes kept for connections whose peers acknowledge what they are
// sent.
func (s *Stock) kept() int64 { return s.most / 2 }

// A StockAccount is the part of the world's stock that one connection holds. It is safe for
// concurrent use. Its lock is taken after all others.
type StockAccount struct {
	stock *Stock

	acked atomic.Int64 // bytes acknowledged by the peer since the connection began

	mu     sync.Mutex // guards the fields below
	bytes  int64
	closed bool
}

// NewAccount returns an account for a connection that holds nothing yet.
func (s *Stock) NewAccount() *StockAccount { return &StockAccount{stock: s} }

// Limit returns the number of bytes that the connection, or one of its transfers, may hold
// now of content that may be sent.
func (s *StockAccount) Limit() int64 {
	free := s.stock.free()
	if free <= s.stock.kept() && !s.proven() {
		free /= newcomers
	}
	return max(s.stock.least, free)
}

// newcomers is the number of connections with few acknowledged bytes that share half of the
// kept half. So each connection of a crowd starts with more than the least, and a hundred
// connections that never acknowledge leave a quarter of the kept half.
const newcomers = 32

// Acked is called when the peer has acknowledged n bytes. The connection no longer holds
// them.
func (s *StockAccount) Acked(n int64) { s.acked.Add(n) }

// proven reports whether the peer has acknowledged more than the connection holds.
func (s *StockAccount) proven() bool { return s.Bytes() < s.acked.Load() }

// Bytes returns the number of bytes the connection holds.
func (s *StockAccount) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Add adds n bytes; n may be negative.
func (s *StockAccount) Add(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.bytes += n
		s.stock.used.Add(n)
	}
}

// Close returns all bytes to the stock. Memory that is still held is freed with its connection.
func (s *StockAccount) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.stock.used.Add(-s.bytes)
	}
}

// A Holding is the part of the stock that one transfer holds: its blocks, from when they are
// read until they are freed, on any goroutine.
type Holding struct {
	account *StockAccount
	bytes   atomic.Int64
	freed   func() // called after each Give, on its goroutine; must not block
}

// NewHolding returns the holding of a transfer that has read nothing yet.
func NewHolding(account *StockAccount, freed func()) *Holding {
	return &Holding{account: account, freed: freed}
}

// Bytes returns the number of bytes the transfer holds.
func (h *Holding) Bytes() int64 { return h.bytes.Load() }

// Room reports whether one more block may be read. mayLeave means that the receiver's credit
// allows the block to be sent at once.
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

// Give removes n bytes that were freed.
func (h *Holding) Give(n int64) {
	h.bytes.Add(-n)
	h.account.Add(-n)
	h.freed()
}
