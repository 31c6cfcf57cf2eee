package quicgo

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
)

// datagrams answers each datagram with itself: the least that a call over QUIC costs.
type datagrams struct {
	conns
	work sync.WaitGroup

	mu      sync.Mutex
	waiting map[uint64]chan struct{}
	last    uint64
	chain   *peer.Chain // nil = answers go to those who wait
}

func openDatagrams(ctx context.Context, n emulate.Net) (*datagrams, error) {
	c, err := connect(ctx, n)
	if err != nil {
		return nil, err
	}
	d := &datagrams{conns: c, waiting: make(map[uint64]chan struct{})}
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
		d.mu.Lock()
		if d.chain != nil {
			if !d.chain.Answered(func() error { return d.client.SendDatagram(m) }) {
				d.chain = nil
			}
			d.mu.Unlock()
			continue
		}
		number := binary.LittleEndian.Uint64(m)
		done := d.waiting[number]
		delete(d.waiting, number)
		d.mu.Unlock()
		if done != nil {
			done <- struct{}{}
		}
	}
}

// Call sends a datagram, whose first 8 bytes travel as its number, and waits for its echo.
func (d *datagrams) Call(ctx context.Context, argument []byte) error {
	done := make(chan struct{}, 1)
	m := append([]byte(nil), argument...)
	d.mu.Lock()
	d.last++
	binary.LittleEndian.PutUint64(m, d.last)
	d.waiting[d.last] = done
	d.mu.Unlock()
	if err := d.client.SendDatagram(m); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Chain sends the next datagram where the echo of the last was received.
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

// Close ends the connection.
func (d *datagrams) Close() {
	d.conns.Close()
	d.work.Wait()
}
