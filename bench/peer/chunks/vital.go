// Package chunks is the article's small protocols as contenders: chunk/vital, and chunk/fragment's one-shot blocks.
package chunks

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/chunk/vital"
)

const (
	// What may wait for its acknowledgement is the path's bandwidth-delay product, within these bounds: the protocol has no
	// congestion control, and more would only overflow the queue.
	leastStore, mostStore = 64 << 10, 500 << 10
	// ackAfter is the acknowledgement's delay; the game has none but its own traffic.
	ackAfter = 5 * time.Millisecond
	// chunkBytes is how much of a blob a chunk carries; a packet holds one.
	chunkBytes = 1024
)

// The first byte of a chunk.
const (
	chunkBlob byte = iota
	chunkTalk
)

// Peers are the two.
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

// pair is two ends of a connection.
type pair struct {
	near, far      *driver
	client, server *vital.Conn

	free chan struct{} // room in the store, perhaps

	mu   sync.Mutex
	hear func(message []byte)
	sink *peer.Sink
	done chan error
}

func openVital(n emulate.Net) (*pair, error) {
	p := &pair{free: make(chan struct{}, 1), hear: func([]byte) {}}
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
	return p, p.Say(nil) // so that the server knows where its client is
}

// atClient says that chunks may have been acknowledged.
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
		p.mu.Lock()
		hear, kind, data := p.hear, c.Data[0], c.Data[1:]
		if kind == chunkBlob {
			p.take(data)
		}
		p.mu.Unlock()
		if kind == chunkTalk {
			hear(data)
		}
	}
}

func (p *pair) take(piece []byte) {
	if p.sink == nil {
		return
	}
	_, err := p.sink.Write(piece)
	if err != nil || p.sink.Full() {
		p.done <- err
		p.sink = nil
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
	done, failed := make(chan error, 1), make(chan error, 1)
	p.mu.Lock()
	p.sink, p.done = peer.NewSink(blob), done
	p.mu.Unlock()
	go func() {
		chunk := make([]byte, 0, 1+chunkBytes)
		for at := 0; at < len(blob); at += chunkBytes {
			chunk = append(append(chunk[:0], chunkBlob), blob[at:min(at+chunkBytes, len(blob))]...)
			if err := p.send(ctx, chunk); err != nil {
				failed <- err
				return
			}
		}
	}()
	select {
	case err := <-done:
		return err
	case err := <-failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Hear implements peer.Talker.
func (p *pair) Hear(fn func(message []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hear = fn
}

// Say sends a message.
func (p *pair) Say(message []byte) error {
	return p.send(context.Background(), append([]byte{chunkTalk}, message...))
}

// Close ends both.
func (p *pair) Close() {
	p.near.close()
	p.far.close()
}
