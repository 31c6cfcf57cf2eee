package budget

import (
	"sync"
	"sync/atomic"
)

// Stock bounds the memory for content that a world's outgoing transfers have read, and that waits for the tick or for the peer's
// acknowledgement. Each transfer may hold least bytes, and more only while it holds less than what is free. So n transfers that all want
// more settle at one part in n+1 each and leave one part for the next that comes, a few are not held up at all, and none waits for another
// to end. It is safe from any goroutine.
type Stock struct {
	most  int64
	least int64 // of each transfer, whatever the others have, so that none waits for another
	used  atomic.Int64
}

// NewStock returns a stock of so many bytes, of which each transfer may have at least some.
func NewStock(most, least int64) *Stock { return &Stock{most: most, least: least} }

// Used returns how many bytes the transfers hold.
func (s *Stock) Used() int64 { return s.used.Load() }

// free is how many bytes are left, not below zero.
func (s *Stock) free() int64 { return max(0, s.most-s.used.Load()) }

// Limit returns how much one transfer or connection may hold now.
func (s *Stock) Limit() int64 { return max(s.least, s.free()) }

// StockAccount is what one connection has of its world's stock. It is safe from any goroutine, and taken after all other locks.
type StockAccount struct {
	stock *Stock

	mu     sync.Mutex
	bytes  int64
	closed bool
}

// NewAccount returns the account of a connection that holds nothing yet.
func (s *Stock) NewAccount() *StockAccount { return &StockAccount{stock: s} }

// Limit returns how much of the stock the connection may hold now.
func (s *StockAccount) Limit() int64 { return s.stock.Limit() }

// Bytes returns how many bytes the connection holds.
func (s *StockAccount) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Add notes n more bytes; negative ones are gone.
func (s *StockAccount) Add(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.bytes += n
		s.stock.used.Add(n)
	}
}

// Close returns all: what is still held goes with its connection.
func (s *StockAccount) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.stock.used.Add(-s.bytes)
	}
}

// Holding is what one transfer has of the stock: its blocks, from when they were read until whatever goroutine frees them.
type Holding struct {
	account *StockAccount
	bytes   atomic.Int64
	freed   func() // called after each Give; it must not block
}

// NewHolding returns the holding of a transfer that has read nothing yet.
func NewHolding(account *StockAccount, freed func()) *Holding {
	return &Holding{account: account, freed: freed}
}

// Bytes returns how many bytes the transfer has.
func (h *Holding) Bytes() int64 { return h.bytes.Load() }

// Room reports whether one more block may be read.
func (h *Holding) Room() bool { return h.Bytes() < h.account.stock.Limit() }

// Take notes that the transfer has n bytes more.
func (h *Holding) Take(n int64) {
	h.bytes.Add(n)
	h.account.Add(n)
}

// Give notes that n bytes are gone.
func (h *Holding) Give(n int64) {
	h.bytes.Add(-n)
	h.account.Add(-n)
	h.freed()
}
