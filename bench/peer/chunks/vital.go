// Package chunks has the article's small protocols as contenders: chunk/vital,
// and chunk/fragment's one-shot blocks.
package chunks

import (
	"context"
	"errors"
	"time"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/chunk/vital"
)

const (
	// How many bytes may wait for their acknowledgement is the path's
	// bandwidth-delay product, within these bounds: the protocol has no
	// congestion control, and more would only overflow the queue.
	leastStore, mostStore = 64 << 10, 500 << 10
	// ackAfter is for how long acknowledgements are delayed; a game delays them
	// until its own traffic.
	ackAfter = 5 * time.Millisecond
	// chunkBytes is how much of a blob a chunk carries; a packet holds one chunk.
	chunkBytes = 1024
)

// The first byte of a chunk.
const (
	chunkBlob byte = iota
	chunkTalk
)

// Peers returns chunk/vital and chunk/fragment.
func Peers() []peer.Peer {
	return []peer.Peer{
		{
			Name: "chunk/vital", Virtual: true, Emulated: true, Moves: true, Talks: true,
			Settings: "version 0.7, as much without acknowledgement as the path's bandwidth-delay product, 64 to 500 KiB, acknowledgements after 5 ms at most; the protocol has neither a window nor congestion control; no encryption, no digest",
			Open:     func(_ context.Context, n emulate.Net) (peer.Pair, error) { return openVital(n) },
		},
		{
			Name: "chunk/fragment", Virtual: true, Emulated: true, Throws: true,
			Settings: "blocks are sent once, at the path's rate; what is lost stays lost; no encryption, a checksum over each packet",
			Open:     func(_ context.Context, n emulate.Net) (peer.Pair, error) { return openFragments(n) },
		},
	}
}

// A pair is two ends of a connection.
type pair struct {
	near, far      *driver
	client, server *vital.Conn

	free chan struct{} // signals that there may be room in the store
	peer.Inlet
}

func openVital(n emulate.Net) (*pair, error) {
	p := &pair{free: make(chan struct{}, 1)}
	config := vital.Config{Version: vital.V07, Token: 1, PeerToken: 1, StoreBytes: min(max(leastStore, n.BDP()), mostStore), ReceiveBytes: 1 << 20, AckAfter: ackAfter}
	var err error
	if p.client, err = vital.NewConn(time.Now(), config); err != nil {
		return nil, err
	}
	if p.server, err = vital.NewConn(time.Now(), config); err != nil {
		return nil, err
	}
	p.far = drive(peer.NewConn(n.Server(), nil), p.server, p.atServer)
	p.near = drive(peer.NewConn(n.Client(), n.Address()), p.client, p.atClient)
	return p, p.Say(nil) // so that the server learns the client's address
}

// atClient signals that chunks may have been acknowledged.
func (p *pair) atClient() {
	for {
		if _, ok := p.client.Next(); !ok {
			break
		}
	}
	select {
	case p.free <- struct{}{}:
	default:
	}
}

func (p *pair) atServer() {
	for {
		c, ok := p.server.Next()
		if !ok {
			return
		}
		switch data := c.Data[1:]; c.Data[0] {
		case chunkBlob:
			p.Take(data)
		case chunkTalk:
			p.Heard(data)
		}
	}
}

// send queues a vital chunk, and waits for room.
func (p *pair) send(ctx context.Context, chunk []byte) error {
	for {
		var err error
		p.near.with(func(machine) error {
			if err = p.client.Send(vital.Vital, chunk); err == nil {
				p.client.Flush()
			}
			return nil
		})
		if !errors.Is(err, vital.ErrStoreFull) && !errors.Is(err, vital.ErrQueueFull) {
			return err
		}
		select {
		case <-p.free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Move sends a blob.
func (p *pair) Move(ctx context.Context, blob []byte) error {
	chunk := make([]byte, 0, 1+chunkBytes)
	return p.Inlet.Move(ctx, blob, chunkBytes, func(piece []byte) error {
		chunk = append(append(chunk[:0], chunkBlob), piece...)
		return p.send(ctx, chunk)
	})
}

// Say sends a message.
func (p *pair) Say(message []byte) error {
	return p.send(context.Background(), append([]byte{chunkTalk}, message...))
}

// Close closes both ends.
func (p *pair) Close() {
	p.near.close()
	p.far.close()
}
