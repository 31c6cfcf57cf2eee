package stream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
)

const benchBytes = 64 << 20

// BenchmarkHash hashes full parts.
func BenchmarkHash(b *testing.B) {
	data := content(partBytes)
	for _, a := range []Algorithm{SHA256, BLAKE3} {
		b.Run(a.String(), func(b *testing.B) {
			h := a.New()
			b.SetBytes(partBytes)
			for b.Loop() {
				h.Write(data)
			}
		})
	}
}

// BenchmarkLoopback moves 64 MiB over QUIC on this machine, worlds under Run: as a
// blob, and for comparison as a quic-go stream with and without SHA-256 at both ends.
func BenchmarkLoopback(b *testing.B) {
	data := content(benchBytes)
	for _, lanes := range []int{1, 4, 8, 16} {
		b.Run(fmt.Sprintf("blob/lanes=%d", lanes), func(b *testing.B) { benchBlob(b, data, Via(Window{Lanes: lanes})) })
	}
	for _, a := range []Algorithm{SHA256, BLAKE3} {
		b.Run(fmt.Sprintf("blob/%v", a), func(b *testing.B) { benchBlob(b, data, Hash(a)) })
	}
	b.Run("blob/slices", func(b *testing.B) { benchBlob(b, data, Via(Slices{})) })
	b.Run("quic", func(b *testing.B) { benchQUIC(b, data, false) })
	b.Run("quic+sha256", func(b *testing.B) { benchQUIC(b, data, true) })
}

// loopback is a server and a client that stream over QUIC on this machine, under Run.
type loopback struct {
	server, client *Streams
	toClient       *Peer
	toServer       *Peer
}

func newLoopback(tb testing.TB, config Config) loopback {
	certificate, err := cert.Development("localhost")
	require.NoError(tb, err)
	serverWorld, server := newWorld(tb, rpc.Config{Sealed: true}, config)
	clientWorld, client := newWorld(tb, rpc.Config{Sealed: true}, config)
	joined := make(chan *rpc.Conn, 1)
	serverWorld.OnConnect(func(c *rpc.Conn) { joined <- c })
	listener, err := rpc.Listen("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}}, serverWorld)
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	go serverWorld.Run(ctx)
	go clientWorld.Run(ctx)
	pin, err := cert.Pinned(cert.Fingerprint(certificate))
	require.NoError(tb, err)
	conn, err := rpc.Dial(ctx, listener.Addr().String(), pin, clientWorld)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		_ = clientWorld.Close(ctx, 0, "over")
		_ = serverWorld.Close(ctx, 0, "over")
		_ = listener.Close()
		cancel()
	})
	return loopback{server, client, server.Peer(<-joined), client.Peer(conn)}
}

func benchBlob(b *testing.B, data []byte, opt Option) {
	l := newLoopback(b, Config{MaxBytes: -1})
	save.Handle(l.client, func(in *IncomingBlob) {
		go io.Copy(io.Discard, in)
	})
	l.awaitSealed(b)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		err := save.Send(b.Context(), l.toClient, bytes.NewReader(data), int64(len(data)), opt)
		require.NoError(b, err)
	}
}

func benchQUIC(b *testing.B, data []byte, hashed bool) {
	certificate, err := cert.Development("localhost")
	require.NoError(b, err)
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(b, err)
	defer socket.Close()
	config := &quic.Config{InitialStreamReceiveWindow: 8 << 20, MaxStreamReceiveWindow: 16 << 20, MaxConnectionReceiveWindow: 32 << 20, InitialConnectionReceiveWindow: 16 << 20}
	listener, err := quic.Listen(socket, &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"bench"}}, config)
	require.NoError(b, err)
	defer listener.Close()
	client, err := cert.Pinned(cert.Fingerprint(certificate))
	require.NoError(b, err)
	client.NextProtos = []string{"bench"}
	conn, err := quic.DialAddr(b.Context(), listener.Addr().String(), client, config)
	require.NoError(b, err)
	defer conn.CloseWithError(0, "over")
	server, err := listener.Accept(b.Context())
	require.NoError(b, err)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		sums := make(chan []byte, 1)
		go func() { sums <- receiveQUIC(server, hashed) }()
		sum := sendQUIC(b, conn, data, hashed)
		require.Equal(b, sum, <-sums)
	}
}

func sendQUIC(b *testing.B, conn *quic.Conn, data []byte, hashed bool) []byte {
	stream, err := conn.OpenUniStream()
	require.NoError(b, err)
	digest := sha256.New()
	for part := range (len(data) + partBytes - 1) / partBytes {
		p := data[part*partBytes : min((part+1)*partBytes, len(data))]
		if hashed {
			digest.Write(p)
		}
		_, err := stream.Write(p)
		require.NoError(b, err)
	}
	require.NoError(b, stream.Close())
	return digest.Sum(nil)
}

func receiveQUIC(conn *quic.Conn, hashed bool) []byte {
	digest := sha256.New()
	stream, err := conn.AcceptUniStream(context.Background())
	if err != nil {
		return nil
	}
	if hashed {
		_, _ = io.CopyBuffer(digest, stream, make([]byte, partBytes))
	} else {
		_, _ = io.CopyBuffer(io.Discard, stream, make([]byte, partBytes))
	}
	return digest.Sum(nil)
}

// BenchmarkHeap moves 1 GiB from a generated reader and reports the most heap
// that both ends had in use.
func BenchmarkHeap(b *testing.B) {
	l := newLoopback(b, Config{MaxBytes: -1})
	save.Handle(l.client, func(in *IncomingBlob) {
		go io.Copy(io.Discard, in)
	})
	var peak atomic.Uint64
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapInuse))
			}
		}
	}()
	defer close(stop)
	b.SetBytes(1 << 30)
	for b.Loop() {
		require.NoError(b, save.Send(b.Context(), l.toClient, endless{}, 1<<30, Lanes(8)))
	}
	b.ReportMetric(float64(peak.Load())/(1<<20), "MiB-peak")
}
