package quiver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

var rushed = stream.NewBlob("rush")

// A rush is the clients besides the pair's own.
type rush struct {
	guests []*guest
	cancel context.CancelFunc

	mu     sync.Mutex
	arrive func(in *stream.IncomingBlob)
}

// A guest is one client's world and connection.
type guest struct {
	world   *rpc.World
	streams *stream.Streams
	conn    *rpc.Conn
}

// bind handles the blobs that one end receives.
func (r *rush) bind(s *stream.Streams) {
	rushed.Handle(s, func(in *stream.IncomingBlob) {
		r.mu.Lock()
		arrive := r.arrive
		r.mu.Unlock()
		go arrive(in)
	})
}

// Invite implements peer.Rusher.
func (p *Pair) Invite(ctx context.Context, clients int) error {
	running, cancel := context.WithCancel(context.Background())
	p.rush.cancel = cancel
	for range clients {
		if err := p.invite(ctx, running); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pair) invite(ctx, running context.Context) (err error) {
	g := &guest{}
	if g.world, err = rpc.NewWorld(p.config); err != nil {
		return err
	}
	if g.streams, err = stream.Install(g.world, streaming); err != nil {
		return err
	}
	p.rush.bind(g.streams)
	rpc.Bind(g.world, gameClass, func(a *rpc.Actor) *rpc.Actor { return a })
	if g.conn, err = rpc.Dial(ctx, p.listener.Addr().String(), peer.ClientTLS(), g.world); err != nil {
		return err
	}
	p.rush.guests = append(p.rush.guests, g)
	p.work.Go(func() { _ = g.world.Run(running) })
	return nil
}

// Rush implements peer.Rusher.
func (p *Pair) Rush(ctx context.Context, data []byte, up bool) error {
	done := make(chan error, 2*len(p.rush.guests))
	p.rush.mu.Lock()
	p.rush.arrive = func(in *stream.IncomingBlob) { done <- drain(in, data) }
	p.rush.mu.Unlock()
	for _, to := range p.ends(up) {
		sent, err := rushed.Start(to, bytes.NewReader(data), int64(len(data)), stream.Via(p.via))
		if err != nil {
			return err
		}
		go func() { // a refused blob does not arrive at the other end
			if err := sent.Wait(ctx); err != nil {
				done <- err
			}
		}()
	}
	return peer.Await(ctx, done, len(p.rush.guests))
}

// ends returns the peers that a rush sends to.
func (p *Pair) ends(up bool) (all []*stream.Peer) {
	if up {
		for _, g := range p.rush.guests {
			all = append(all, g.streams.Peer(g.conn))
		}
		return all
	}
	for _, c := range p.server.Conns()[1:] { // the oldest is the pair's own
		all = append(all, p.streams.Peer(c))
	}
	return all
}

// drain reads a whole blob and its verified end.
func drain(in *stream.IncomingBlob, want []byte) error {
	if err := peer.NewSink(want).Drain(in); err != nil {
		return err
	}
	if _, end := in.Read(make([]byte, 1)); end != io.EOF {
		return fmt.Errorf("quiver: no end of the blob: %w", end)
	}
	return nil
}

// leave closes the guests' worlds.
func (r *rush) leave(ctx context.Context) {
	for _, g := range r.guests {
		_ = g.world.Close(ctx, 0, "over")
	}
	if r.cancel != nil {
		r.cancel()
	}
}
