package quicgo

import (
	"context"
	"errors"
	"sync"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/bench/peer"
)

// guests are the clients besides the pair's own.
type guests struct {
	conns []guest
	work  sync.WaitGroup // the goroutines that accept, receive and send

	mu     sync.Mutex
	arrive func(s *quic.ReceiveStream) // reads one blob
}

// A guest is one client's connection, at both ends.
type guest struct {
	near *client
	far  *quic.Conn
}

// Invite implements peer.Rusher.
func (p *pair) Invite(ctx context.Context, clients int) error {
	for range clients {
		near, err := dial(ctx, p.far.Conn.LocalAddr())
		if err != nil {
			return err
		}
		far, err := p.listener.Accept(ctx)
		if err != nil {
			return err
		}
		p.guests.welcome(near.Conn)
		p.guests.welcome(far)
		p.guests.conns = append(p.guests.conns, guest{near, far})
	}
	return nil
}

// welcome handles the streams that one end receives.
func (g *guests) welcome(conn *quic.Conn) {
	g.work.Go(func() {
		for {
			s, err := conn.AcceptUniStream(context.Background())
			if err != nil {
				return
			}
			g.mu.Lock()
			arrive := g.arrive
			g.mu.Unlock()
			g.work.Go(func() { arrive(s) })
		}
	})
}

// Rush implements peer.Rusher.
func (p *pair) Rush(ctx context.Context, data []byte, up bool) error {
	g := &p.guests
	done := make(chan error, 2*len(g.conns))
	g.mu.Lock()
	g.arrive = func(s *quic.ReceiveStream) {
		(&blob{want: data, digest: p.digest(), done: done}).whole(s)
	}
	g.mu.Unlock()
	for _, c := range g.conns {
		from := c.far
		if up {
			from = c.near.Conn
		}
		g.work.Go(func() {
			if err := p.give(from, data); err != nil {
				done <- err
			}
		})
	}
	return peer.Await(ctx, done, len(g.conns))
}

// give sends a blob over a stream of its own.
func (p *pair) give(conn *quic.Conn, data []byte) error {
	s, err := conn.OpenUniStreamSync(context.Background())
	if err != nil {
		return err
	}
	return errors.Join(p.sendHashed(s, data), s.Close())
}

func (g *guests) leave() {
	for _, c := range g.conns {
		c.near.close()
		_ = c.far.CloseWithError(0, "over")
	}
	g.work.Wait()
}
