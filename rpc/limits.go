package rpc

import (
	"fmt"
	"sync"
)

// budget shares the memory for reliable messages that wait here among the connections of a world. Each reserves its
// limit as a whole, so that the sum holds whatever peers do.
type budget struct {
	mu       sync.Mutex
	total    int // bytes
	reserved int
}

// take reserves bytes and reports whether they were there.
func (b *budget) take(bytes int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if bytes > b.total-b.reserved {
		return false
	}
	b.reserved += bytes
	return true
}

// grow raises a reservation of held bytes to an eighth of what is free, at most to limit, and returns the new one.
// An eighth each leaves room for those who come later.
func (b *budget) grow(held, limit int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	grant := min(max((b.total-b.reserved)/8, held), limit)
	grant = max(held, min(grant, held+b.total-b.reserved))
	b.reserved += grant - held
	return grant
}

func (b *budget) give(bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved -= bytes
}

// enlist counts a new connection against the limits of the world, or says which one is reached.
func (w *World) enlist(c *Conn) *CloseError {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed != nil:
		return &CloseError{Code: HostClosedConnection, Reason: "the world is closed"}
	case w.count >= w.config.maxConns():
		return &CloseError{Code: ServerFull, Reason: fmt.Sprintf("%d connections, the limit is Config.MaxConns", w.count)}
	case w.half >= w.config.maxHandshakes():
		return &CloseError{Code: ServerFull, Reason: fmt.Sprintf("%d handshakes at once, the limit is Config.MaxHandshakes", w.half)}
	case !w.budget.take(minReceiveLimit):
		return &CloseError{Code: ServerFull, Reason: fmt.Sprintf("no %d bytes left of Config.ReceiveBudget, %d", minReceiveLimit, w.config.receiveBudget())}
	}
	c.reserved = minReceiveLimit
	w.serial++
	c.id = w.serial
	w.count++
	w.half++
	return nil
}

// busy reports whether so many handshakes are half open that new ones should prove their address first.
func (w *World) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.half > w.config.maxHandshakes()/2
}
