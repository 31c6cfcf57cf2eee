package quiver

import (
	"bytes"
	"context"
	"sync"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

var save = stream.NewBlob("bench")

// A Pair is a server's world and a client's with one connection, over which
// blobs and calls are sent.
type Pair struct {
	via    stream.Backend // of all blobs
	config rpc.Config     // of all worlds: which carriers they have

	server, client   *rpc.World
	streams, uploads *stream.Streams // the server's, the client's
	listener         *rpc.Listener
	conn             *rpc.Conn          // the client's
	cancel           context.CancelFunc // ends Run of both worlds
	work             sync.WaitGroup     // Run of all worlds

	game game
	rush rush

	carrier string // carrier of the last blob; set by Move

	mu       sync.Mutex
	incoming *arrival // the blob that Move sends
}

// An arrival is a blob in flight to the server.
type arrival struct {
	want []byte
	done chan error // receives nil when the server has verified the blob; capacity 1
}

// Open connects two worlds, both with that config, over a net. Blobs use that backend.
func Open(ctx context.Context, n emulate.Net, via stream.Backend, config rpc.Config) (*Pair, error) {
	p := &Pair{via: via, config: config}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	var err error
	if p.listener, err = rpc.ListenPacket(n.Server(), peer.ServerTLS(), p.server); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.work.Go(func() { _ = p.server.Run(running) })
	p.work.Go(func() { _ = p.client.Run(running) })
	if p.conn, err = rpc.DialPacket(ctx, n.Client(), n.Address(), peer.ClientTLS(), p.client); err != nil {
		p.Close()
		return nil, err
	}
	return p, p.game.await(ctx)
}

// prepare makes the worlds and binds what they handle.
func (p *Pair) prepare() (err error) {
	config := p.config
	config.MaxConnsPerAddress = -1
	if p.server, err = rpc.NewWorld(config); err != nil {
		return err
	}
	if p.client, err = rpc.NewWorld(config); err != nil {
		return err
	}
	if p.streams, err = stream.Install(p.server, streaming); err != nil {
		return err
	}
	if p.uploads, err = stream.Install(p.client, streaming); err != nil {
		return err
	}
	save.Handle(p.streams, func(in *stream.IncomingBlob) { go p.receive(in) })
	p.rush.bind(p.streams)
	p.game.bind(p.server, p.client)
	return nil
}

// receive reads a blob at the server, on a goroutine of its own.
func (p *Pair) receive(in *stream.IncomingBlob) {
	p.mu.Lock()
	a := p.incoming
	p.mu.Unlock()
	a.done <- drain(in, a.want)
}

// Move implements [peer.Mover].
func (p *Pair) Move(ctx context.Context, blob []byte) error {
	a := &arrival{want: blob, done: make(chan error, 1)}
	p.mu.Lock()
	p.incoming = a
	p.mu.Unlock()
	t, err := save.Start(p.uploads.Peer(p.conn), bytes.NewReader(blob), int64(len(blob)), stream.Via(p.via))
	if err != nil {
		return err
	}
	select {
	case err = <-a.done:
		if p.carrier = "quic"; t.Sealed() {
			p.carrier = "sealed"
		}
		return err
	case <-ctx.Done():
		t.Cancel(context.Cause(ctx))
		return context.Cause(ctx)
	}
}

// Carrier returns what carried the last blob: quic or sealed.
func (p *Pair) Carrier() string { return p.carrier }

// Close closes both worlds.
func (p *Pair) Close() {
	ctx := context.Background()
	p.rush.leave(ctx)
	_ = p.client.Close(ctx, 0, "over")
	_ = p.server.Close(ctx, 0, "over")
	_ = p.listener.Close()
	p.cancel()
	p.work.Wait()
}
