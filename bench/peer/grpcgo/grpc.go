// Package grpcgo is gRPC-go as a contender.
package grpcgo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/bench/peer/tcp"
)

const (
	streamWindow = 16 << 20
	connWindow   = 32 << 20
	pieceBytes   = 64 << 10
)

// Peers returns the one contender.
func Peers() []peer.Peer {
	return []peer.Peer{{
		Name: "grpc-go", Module: "google.golang.org/grpc", Moves: true, Calls: true,
		Settings: "one connection, stream window 16 MiB, connection window 32 MiB; unary calls, and a client stream of 64 KiB messages for the blob; bytes as they are, no encryption, no digest",
		Tunneled: emulate.CanTunnel(),
		Open:     func(ctx context.Context, n emulate.Net) (peer.Pair, error) { return open(ctx, tcp.Over(n)) },
	}}
}

type pair struct {
	server *grpc.Server
	conn   *grpc.ClientConn

	mu      sync.Mutex
	sink    *peer.Sink
	arrived chan error // receives the result of the blob
}

func open(ctx context.Context, over emulate.Streamed) (*pair, error) {
	listener, err := over.Listen()
	if err != nil {
		return nil, err
	}
	p := &pair{server: grpc.NewServer(grpc.ForceServerCodecV2(plain{}), grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connWindow))}
	p.server.RegisterService(&service, p)
	go func() { _ = p.server.Serve(listener) }()
	p.conn, err = grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(over.Dial),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(plain{})), grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow))
	if err != nil {
		return nil, err
	}
	p.conn.Connect() // otherwise the time of the first blob would include the handshake
	for state := p.conn.GetState(); state != connectivity.Ready; state = p.conn.GetState() {
		if !p.conn.WaitForStateChange(ctx, state) {
			p.Close()
			return nil, context.Cause(ctx)
		}
	}
	return p, nil
}

// service is what a code generator would write.
var service = grpc.ServiceDesc{
	ServiceName: "bench.Echo", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: say}},
	Streams: []grpc.StreamDesc{{StreamName: "Put", Handler: put, ClientStreams: true}},
}

func say(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	m := new([]byte)
	return m, decode(m)
}

func put(server any, s grpc.ServerStream) error {
	p := server.(*pair)
	p.mu.Lock()
	sink, arrived := p.sink, p.arrived
	p.mu.Unlock()
	var m []byte
	for {
		err := s.RecvMsg(&m)
		if errors.Is(err, io.EOF) {
			return s.SendMsg(&m)
		}
		if err == nil {
			_, err = sink.Write(m)
		}
		if err != nil {
			return err
		}
		if sink.Full() {
			arrived <- nil
		}
	}
}

// Call makes a unary call.
func (p *pair) Call(ctx context.Context, argument []byte) error {
	var answer []byte
	if err := p.conn.Invoke(ctx, "/bench.Echo/Say", &argument, &answer); err != nil {
		return err
	}
	if !bytes.Equal(answer, argument) {
		return errors.New("grpcgo: a wrong answer")
	}
	return nil
}

// Move sends a blob.
func (p *pair) Move(ctx context.Context, blob []byte) error {
	arrived := make(chan error, 2)
	p.mu.Lock()
	p.sink, p.arrived = peer.NewSink(blob), arrived
	p.mu.Unlock()
	go func() {
		if err := p.send(ctx, blob); err != nil {
			arrived <- err
		}
	}()
	return peer.Await(ctx, arrived, 1)
}

// send sends the blob and returns when the server has answered.
func (p *pair) send(ctx context.Context, blob []byte) error {
	s, err := p.conn.NewStream(ctx, &service.Streams[0], "/bench.Echo/Put")
	if err != nil {
		return err
	}
	for at := 0; at < len(blob); at += pieceBytes {
		m := blob[at:min(at+pieceBytes, len(blob))]
		if err := s.SendMsg(&m); err != nil {
			return err
		}
	}
	var answer []byte
	return errors.Join(s.CloseSend(), s.RecvMsg(&answer))
}

// Close closes both ends.
func (p *pair) Close() {
	_ = p.conn.Close()
	p.server.Stop()
}
