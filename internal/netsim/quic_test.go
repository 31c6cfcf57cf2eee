package netsim

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
)

// tlsConfigs returns the configurations of a server with a certificate of its
// own and of a client that trusts any.
func tlsConfigs(t testing.TB) (server, client *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	certificate := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"netsim"}},
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"netsim"}}
}

// quicPair connects two ends of quic-go over a Pipe.
func quicPair(t testing.TB, up, down Config) (client, server *quic.Conn, a, b *PacketConn) {
	a, b = pipe(t, up, down)
	serverTLS, clientTLS := tlsConfigs(t)
	cfg := &quic.Config{EnableDatagrams: true}
	near, far := &quic.Transport{Conn: a, ConnectionIDLength: 17}, &quic.Transport{Conn: b, ConnectionIDLength: 17}
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	listener, err := far.Listen(serverTLS, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	client, err = near.Dial(t.Context(), b.LocalAddr(), clientTLS, cfg)
	require.NoError(t, err)
	server, err = listener.Accept(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = client.CloseWithError(0, "")
		_ = server.CloseWithError(0, "")
	})
	return client, server, a, b
}

// upload sends size bytes over a stream, and returns how long the last of them took.
func upload(t testing.TB, client, server *quic.Conn, size int) time.Duration {
	start := time.Now()
	data := bytes.Repeat([]byte("quiver netsim!! "), size/16)
	go func() {
		if stream, err := client.OpenUniStream(); err == nil {
			_, _ = stream.Write(data)
			_ = stream.Close()
		}
	}()
	stream, err := server.AcceptUniStream(t.Context())
	require.NoError(t, err)
	hash := sha256.New()
	n, err := io.Copy(hash, stream)
	require.NoError(t, err)
	require.EqualValues(t, size, n)
	require.Equal(t, sha256.Sum256(data), [32]byte(hash.Sum(nil)))
	return time.Since(start)
}

func TestQUICStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := Config{Delay: 25 * ms, Loss: 0.01, Seed: testkit.Seed(t)}
		client, server, a, b := quicPair(t, path, path)
		took := upload(t, client, server, 1<<20)
		up, down := a.To(b).Stats(), b.To(a).Stats()
		t.Logf("1 MiB in %v; up %+v; down %+v", took, up, down)
		require.Greater(t, took, 100*ms, "slow start over 50 ms of round trip")
		require.NotZero(t, up.Lost+down.Lost)
		require.Zero(t, up.Overrun+down.Overrun)
	})
}

// A stream over a slow link without loss takes what the link takes: within 5 %
// of the bytes carried at its rate.
func TestQUICStreamAtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := Config{Delay: 25 * ms, Rate: 10e6}
		client, server, a, b := quicPair(t, path, path)
		took := upload(t, client, server, 4<<20)
		carried := float64(a.To(b).Stats().CarriedBytes) * 8 / 10e6
		t.Logf("4 MiB in %v, the link was busy for %.3f s", took, carried)
		require.InEpsilon(t, carried, took.Seconds(), 0.05)
	})
}

func TestQUICDatagrams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server, a, b := quicPair(t, Config{Delay: 25 * ms}, Config{Delay: 25 * ms})
		echo := func() time.Duration {
			t.Helper()
			start := time.Now()
			require.NoError(t, client.SendDatagram([]byte("ping")))
			p, err := server.ReceiveDatagram(t.Context())
			require.NoError(t, err)
			require.NoError(t, server.SendDatagram(p))
			_, err = client.ReceiveDatagram(t.Context())
			require.NoError(t, err)
			return time.Since(start)
		}
		for range 100 {
			require.InEpsilon(t, 50*ms, echo(), 0.05)
		}

		t.Logf("# quic-go finds the path MTU, as on a real socket")
		require.Greater(t, maxDatagramOf(t, client), 1380)

		t.Logf("# a path that shrinks: large datagrams vanish, small ones pass")
		a.To(b).SetMTU(1200)
		require.NoError(t, client.SendDatagram(make([]byte, 1300)))
		time.Sleep(time.Second) // or else the small one shares its packet
		echo()
		require.NotZero(t, a.To(b).Stats().LostMTU)

		t.Logf("# dark for 5 s: the connection lives on")
		a.To(b).Dark(5 * time.Second)
		b.To(a).Dark(5 * time.Second)
		require.NoError(t, client.SendDatagram([]byte("lost")))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := server.ReceiveDatagram(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.InEpsilon(t, 50*ms, echo(), 0.05)
	})
}

// maxDatagramOf asks quic-go for the largest datagram it takes.
func maxDatagramOf(t *testing.T, c *quic.Conn) int {
	var tooLarge *quic.DatagramTooLargeError
	require.ErrorAs(t, c.SendDatagram(make([]byte, 4096)), &tooLarge)
	return int(tooLarge.MaxDatagramPayloadSize)
}

func TestQUICRealTime(t *testing.T) {
	client, server, a, b := quicPair(t, Config{Delay: ms}, Config{Delay: ms})
	upload(t, client, server, 1<<20)
	require.NotZero(t, a.To(b).Stats().Carried)
	require.NoError(t, client.CloseWithError(7, "bye"))
	<-server.Context().Done()
	var closed *quic.ApplicationError
	require.True(t, errors.As(context.Cause(server.Context()), &closed))
	require.EqualValues(t, 7, closed.ErrorCode)
}

func TestQUICOverRelay(t *testing.T) {
	serverTLS, clientTLS := tlsConfigs(t)
	listener, err := quic.ListenAddr("127.0.0.1:0", serverTLS, nil)
	require.NoError(t, err)
	defer listener.Close()
	relay := newRelay(t, listener.Addr().String(), Config{Delay: ms}, Config{Delay: ms, Loss: 0.01, Seed: 1})
	client, err := quic.DialAddr(t.Context(), relay.Addr().String(), clientTLS, nil)
	require.NoError(t, err)
	defer client.CloseWithError(0, "")
	server, err := listener.Accept(t.Context())
	require.NoError(t, err)
	defer server.CloseWithError(0, "")
	require.Equal(t, net.IPv4(127, 0, 0, 1).String(), server.RemoteAddr().(*net.UDPAddr).IP.String())
	upload(t, client, server, 1<<20)
	up, _ := relay.Stats()
	require.Greater(t, up.CarriedBytes, uint64(1<<20))
}

// Virtual time must stay cheap: 4 MiB over 50 ms and 1 % loss.
func TestQUICStreamOnAFastLossyPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := Config{Delay: 25 * ms, Loss: 0.01, Rate: 100e6, Seed: testkit.Seed(t)}
		client, server, a, b := quicPair(t, path, path)
		t.Logf("4 MiB in %v of virtual time; %+v", upload(t, client, server, 4<<20), a.To(b).Stats())
	})
}
