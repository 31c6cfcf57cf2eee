package quicgo

import (
	"context"
	"sync"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
)

// A datagrams answers each datagram with itself: the least that a call over QUIC costs.
type datagrams struct {
	conns
	work sync.WaitGroup

	calls peer.Numbered

	mu    sync.Mutex
	chain *peer.Chain // nil = answers go to calls
}

func openDatagrams(ctx context.Context, n emulate.Net) (*datagrams, error) {
	c, err := connect(ctx, n)
	if err != nil {
		return nil, err
	}
	d := &datagrams{conns: c}
	d.work.Go(d.echo)
	d.work.Go(d.receive)
	return d, nil
}

func (d *datagrams) echo() {
	for {
		m, err := d.accepted.ReceiveDatagram(context.Background())
		if err != nil || d.accepted.SendDatagram(m) != nil {
			return
		}
	}
}

func (d *datagrams) receive() {
	for {
		m, err := d.client.ReceiveDatagram(context.Background())
		if err != nil {
			return
		}
		if !d.chained(m) {
			d.calls.Answered(m, nil)
		}
	}
}

// chained reports whether there is a chain, and passes the echo to it, which
// sends the next datagram.
func (d *datagrams) chained(m []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.chain == nil {
		return false
	}
	if !d.chain.Answered(func() error { return d.client.SendDatagram(m) }) {
		d.chain = nil
	}
	return true
}

// Call sends a datagram and waits for its echo.
func (d *datagrams) Call(ctx context.Context, argument []byte) error {
	return d.calls.Call(ctx, argument, d.client.SendDatagram)
}

// Chain sends the next datagram once the echo of the last was received.
func (d *datagrams) Chain(ctx context.Context, argument []byte, next func() bool) error {
	c := peer.NewChain(next)
	d.mu.Lock()
	d.chain = c
	d.mu.Unlock()
	if err := d.client.SendDatagram(append([]byte(nil), argument...)); err != nil {
		return err
	}
	return c.Wait(ctx)
}

// Close closes the connection.
func (d *datagrams) Close() {
	d.conns.Close()
	d.work.Wait()
}
