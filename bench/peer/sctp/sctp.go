// Package sctp is pion/sctp as a contender, directly over UDP: what WebRTC's
// data channels use, without their DTLS.
package sctp

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/pion/logging"
	"github.com/pion/sctp"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
)

const (
	module = "github.com/pion/sctp"
	// receiveBuffer is several times what the largest path holds; the default
	// of 1 MiB would be less.
	receiveBuffer = 16 << 20
	// pieceBytes is the size of a message of the blob.
	pieceBytes = 16 << 10
	maxMessage = 64 << 10
	mtu        = 1400
	// leastBuffered is how much of a blob the association holds at least, including what is sent
	// and not acknowledged. More than that delays messages, because one queue holds all streams.
	leastBuffered = 128 << 10
)

// Peers returns the one contender.
func Peers() []peer.Peer {
	return []peer.Peer{{
		Name: "pion/sctp", Module: module, Virtual: true, Emulated: true, Moves: true, Talks: true, Calls: true,
		Settings: "receive buffer 16 MiB, MTU 1,400, else defaults; the blob as messages of 16 KiB on one stream, of which twice the bandwidth-delay product, 128 KiB at least, are buffered, messages on another, calls on a third; no encryption, no digest",
		Open:     func(ctx context.Context, n emulate.Net) (peer.Pair, error) { return open(ctx, n) },
	}}
}

// The streams.
const (
	streamBlob = iota
	streamTalk
	streamCall
	streams
)

type pair struct {
	client, server *sctp.Association
	near, far      [streams]*sctp.Stream
	calls          *peer.Calls
	buffered       uint64        // most bytes of the blob's stream that are buffered
	room           chan struct{} // signals that fewer are
	peer.Ear
}

func open(ctx context.Context, n emulate.Net) (*pair, error) {
	p := &pair{buffered: uint64(max(leastBuffered, 2*n.BDP())), room: make(chan struct{}, 1)}
	config := func(c net.Conn) sctp.Config {
		return sctp.Config{NetConn: c, MTU: mtu, MaxReceiveBufferSize: receiveBuffer, MaxMessageSize: maxMessage,
			LoggerFactory: logging.NewDefaultLoggerFactory()}
	}
	served := make(chan error, 1)
	go func() {
		var err error
		p.server, err = sctp.Server(config(peer.NewConn(n.Server(), nil)))
		served <- err
	}()
	var err error
	if p.client, err = sctp.Client(config(peer.NewConn(n.Client(), n.Address()))); err != nil {
		return nil, err
	}
	if err := peer.Await(ctx, served, 1); err != nil {
		return nil, err
	}
	return p, p.start()
}

// start opens the streams at both ends.
func (p *pair) start() error {
	for i := range streams {
		var err error
		if p.near[i], err = p.client.OpenStream(uint16(i), sctp.PayloadTypeWebRTCBinary); err != nil {
			return err
		}
		if p.far[i], err = p.server.OpenStream(uint16(i), sctp.PayloadTypeWebRTCBinary); err != nil {
			return err
		}
	}
	p.near[streamBlob].SetBufferedAmountLowThreshold(p.buffered - pieceBytes)
	p.near[streamBlob].OnBufferedAmountLow(func() {
		select {
		case p.room <- struct{}{}:
		default:
		}
	})
	go p.listen()
	go func() { _ = peer.Echo(messages{p.far[streamCall]}) }()
	p.calls = peer.NewCalls(messages{p.near[streamCall]})
	return nil
}

// A messages reads whole messages into a buffer that may be smaller.
type messages struct{ *sctp.Stream }

func (m messages) Read(p []byte) (int, error) {
	n, err := m.Stream.Read(p)
	if errors.Is(err, io.ErrShortBuffer) {
		return 0, errors.New("sctp: a message larger than the reader's buffer")
	}
	return n, err
}

func (p *pair) listen() {
	buf := make([]byte, maxMessage)
	for {
		n, err := p.far[streamTalk].Read(buf)
		if err != nil {
			return
		}
		p.Heard(buf[:n])
	}
}

// Say sends a message.
func (p *pair) Say(message []byte) error {
	_, err := p.near[streamTalk].Write(message)
	return err
}

// Call makes a call.
func (p *pair) Call(ctx context.Context, argument []byte) error { return p.calls.Call(ctx, argument) }

// Move sends a blob.
func (p *pair) Move(ctx context.Context, blob []byte) error {
	done := make(chan error, 2)
	go func() {
		if err := p.pour(ctx, blob); err != nil {
			done <- err
		}
	}()
	go func() { done <- peer.NewSink(blob).Drain(p.far[streamBlob]) }()
	return peer.Await(ctx, done, 1)
}

// pour writes the blob as there is room.
func (p *pair) pour(ctx context.Context, blob []byte) error {
	for at := 0; at < len(blob); at += pieceBytes {
		for p.near[streamBlob].BufferedAmount() >= p.buffered {
			select {
			case <-p.room:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if _, err := p.near[streamBlob].Write(blob[at:min(at+pieceBytes, len(blob))]); err != nil {
			return err
		}
	}
	return nil
}

// Close aborts both ends.
func (p *pair) Close() {
	p.client.Abort("over")
	p.server.Abort("over")
}
