package rpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/quicconn"
	"github.com/quivernet/quiver/internal/testkit"
)

// forge makes the first packets of QUIC clients that never say more: real
// Initials, each with a connection id, keys and a ClientHello of its own, taken
// from quic-go's client before they reach a socket.
type forge struct {
	t         *testing.T
	transport *quic.Transport
	paper     *paper
	config    *tls.Config
}

func newForge(t *testing.T) *forge {
	t.Helper()
	f := &forge{t: t, paper: &paper{wrote: make(chan []byte, 16), closed: make(chan struct{})}}
	f.transport = &quic.Transport{Conn: f.paper, ConnectionIDLength: quicconn.ConnectionIDBytes}
	f.config = &tls.Config{
		InsecureSkipVerify: true,
		NextProtos:         []string{quicconn.ALPN},
		CurvePreferences:   []tls.CurveID{tls.X25519}, // so that the ClientHello fits one packet
	}
	t.Cleanup(func() {
		close(f.paper.closed)
		_ = f.transport.Close()
	})
	return f
}

// initial returns the first packet of a new client.
func (f *forge) initial() []byte {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = f.transport.Dial(ctx, f.paper.LocalAddr(), f.config, &quic.Config{EnableDatagrams: true})
	}()
	packet := <-f.paper.wrote
	cancel()
	<-gone
	for len(f.paper.wrote) > 0 { // repeats and closes
		<-f.paper.wrote
	}
	return packet
}

// initials returns the first packets of so many clients.
func (f *forge) initials(n int) [][]byte {
	packets := make([][]byte, n)
	for i := range packets {
		packets[i] = f.initial()
	}
	return packets
}

// paper is a socket that keeps what is written, and never hears.
type paper struct {
	wrote  chan []byte
	closed chan struct{}
}

func (p *paper) ReadFrom([]byte) (int, net.Addr, error) {
	<-p.closed
	return 0, nil, net.ErrClosed
}

func (p *paper) WriteTo(b []byte, _ net.Addr) (int, error) {
	select {
	case p.wrote <- bytes.Clone(b):
	default:
	}
	return len(b), nil
}

func (p *paper) Close() error                     { return nil }
func (p *paper) LocalAddr() net.Addr              { return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9} }
func (p *paper) SetDeadline(time.Time) error      { return nil }
func (p *paper) SetReadDeadline(time.Time) error  { return nil }
func (p *paper) SetWriteDeadline(time.Time) error { return nil }

// crowd is many sockets that send to one server and count what comes back.
type crowd struct {
	t       *testing.T
	sockets []*net.UDPConn
	server  net.Addr
	out     int // bytes
	in      atomic.Int64
	reading sync.WaitGroup
}

func newCrowd(t *testing.T, sockets int, server net.Addr) *crowd {
	t.Helper()
	c := &crowd{t: t, server: server}
	for i := range sockets {
		s, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, byte(1+i))})
		if err != nil { // systems other than Linux have only the first loopback address
			s, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		}
		require.NoError(t, err)
		c.sockets = append(c.sockets, s)
		c.reading.Go(func() { c.read(s) })
	}
	t.Cleanup(c.close)
	return c
}

func (c *crowd) read(s *net.UDPConn) {
	buf := make([]byte, 2048)
	for {
		n, _, err := s.ReadFrom(buf)
		if err != nil {
			return
		}
		c.in.Add(int64(n))
	}
}

// flood sends the packets, each from the next socket, with short breaks, so
// that the server's socket loses few.
func (c *crowd) flood(packets [][]byte) {
	for i, packet := range packets {
		n, _ := c.sockets[i%len(c.sockets)].WriteTo(packet, c.server) // refused once the server is gone
		c.out += n
		if i%20 == 19 {
			time.Sleep(time.Millisecond)
		}
	}
}

func (c *crowd) close() {
	for _, s := range c.sockets {
		_ = s.Close()
	}
	c.reading.Wait()
}

// heap returns the bytes in use after a collection.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse + m.StackInuse)
}

// listenLogged makes a server that listens until the test ends, and the lines that it logs.
func listenLogged(t *testing.T, config *tls.Config) (*testWorld, *Listener, *testkit.Log) {
	log := &testkit.Log{}
	server := newTestWorld(t, Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	listener, err := Listen("127.0.0.1:0", config, server.World)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	return server, listener, log
}

// TestInitialFlood: first packets from forged addresses make no handshakes beyond
// Config.RetryAbove: each more gets a Retry, which keeps nothing here, and who answers it joins.
func TestInitialFlood(t *testing.T) {
	const initials, sockets, limit = 2000, 100, 32
	serverTLS, clientTLS := credentials(t)
	server, listener, log := listenLogged(t, serverTLS)
	packets := newForge(t).initials(initials)
	attackers := newCrowd(t, sockets, listener.Addr())
	before, routines := heap(), runtime.NumGoroutine()
	began := time.Now()

	attackers.flood(packets[:initials/2])
	start := time.Now()
	c, err := Dial(t.Context(), listener.Addr().String(), clientTLS, newTestWorld(t, Config{}).World)
	require.NoError(t, err, "an honest client joins meanwhile")
	defer c.Close(0, "end of test")
	t.Logf("an honest client joined in %v", time.Since(start))
	attackers.flood(packets[initials/2:])

	stats := server.HandshakeStats()
	grown, more := heap()-before, runtime.NumGoroutine()-routines
	amplified := float64(attackers.in.Load()) / float64(attackers.out)
	t.Logf("%+v: %d KiB and %d goroutines more, %.2f bytes back for each", stats, grown>>10, more, amplified)
	lasted := uint64(time.Since(began)/time.Second) + 1 // places of forged handshakes come free after a second at the soonest
	require.LessOrEqual(t, stats.Begun, limit*lasted+1)
	if runtime.GOOS == "linux" {
		require.GreaterOrEqual(t, stats.Begun, uint64(limit), "by so many addresses the bound of all is reached before that of each")
	}
	require.Greater(t, stats.Retries, uint64(initials/4), "the rest found a queue full, or the socket's buffer")
	require.LessOrEqual(t, more, 4*limit+20, "quic-go has three or four a handshake")
	require.Less(t, grown, 32<<20)
	require.Less(t, amplified, 3.0)
	warned := log.With("address validation required for new clients")
	require.NotEmpty(t, warned)
	require.LessOrEqual(t, uint64(len(warned)), lasted+1, "one a second")
}

// TestCloseDuringAFlood: closing the listener ends handshakes that nobody
// finishes; the package's leak check sees the rest.
func TestCloseDuringAFlood(t *testing.T) {
	serverTLS, _ := credentials(t)
	server := newTestWorld(t, Config{})
	listener, err := Listen("127.0.0.1:0", serverTLS, server.World)
	require.NoError(t, err)
	packets := newForge(t).initials(200)
	attackers := newCrowd(t, 20, listener.Addr())
	flooding := make(chan struct{})
	go func() {
		defer close(flooding)
		attackers.flood(packets)
	}()
	for server.HandshakeStats().Begun == 0 {
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, listener.Close())
	<-flooding
	server.lobby.mu.Lock()
	defer server.lobby.mu.Unlock()
	require.Empty(t, server.lobby.attached)
}

// TestRetryLogSaysWhy: before, a server with one client in its handshake warned
// of its RetryAbove of 32.
func TestRetryLogSaysWhy(t *testing.T) {
	serverTLS, clientTLS := credentials(t)
	_, listener, log := listenLogged(t, serverTLS)
	for range 6 { // of one address: four begin without a proof
		c, err := Dial(t.Context(), listener.Addr().String(), clientTLS, newTestWorld(t, Config{}).World)
		require.NoError(t, err)
		defer c.Close(0, "end of test")
	}
	warned := log.With("address validation required for new clients")
	require.NotEmpty(t, warned)
	require.Contains(t, warned[0], `reason="several unvalidated handshakes from this address"`)
}

func TestRetryAlways(t *testing.T) {
	serverTLS, clientTLS := credentials(t)
	server := newTestWorld(t, Config{RetryAbove: -1})
	listener, err := Listen("127.0.0.1:0", serverTLS, server.World)
	require.NoError(t, err)
	defer listener.Close()
	c, err := Dial(t.Context(), listener.Addr().String(), clientTLS, newTestWorld(t, Config{}).World)
	require.NoError(t, err)
	defer c.Close(0, "end of test")
	stats := server.HandshakeStats()
	require.EqualValues(t, 1, stats.Begun)
	require.Positive(t, stats.Retries)
}

// TestACrowdGetsItsRetries: quic-go queues eight Retries and drops the others. Before, a party
// behind one address dialed for a second, and some of a larger one until they timed out.
func TestACrowdGetsItsRetries(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as on a machine whose other processors are busy
	server := newTestWorld(t, Config{RetryAbove: -1})
	serverTLS, _ := credentials(t)
	listener, err := Listen("127.0.0.1:0", serverTLS, server.World)
	require.NoError(t, err)
	defer listener.Close()
	client, err := net.Dial("udp", listener.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	const crowd = 64
	got := 0
	for range 3 { // a system whose processors are all busy may stop the thread that sends Retries, and the next ones are dropped
		if got = retries(t, client, crowd); got == crowd {
			break
		}
	}
	require.Equal(t, crowd, got)
}

// retries sends as many first packets at once, and returns how many Retries come.
func retries(t *testing.T, client net.Conn, crowd int) (got int) {
	for _, initial := range newForge(t).initials(crowd) {
		_, err := client.Write(initial)
		require.NoError(t, err)
	}
	for b := make([]byte, 1500); got < crowd; got++ {
		require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Second)))
		if _, err := client.Read(b); err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			break
		}
		require.Equal(t, byte(0xf0), b[0]&0xf0, "a Retry")
	}
	return got
}

// TestRefusedAtTheDoor: a client is told which kind of limit it met, even if
// QUIC itself refuses it.
func TestRefusedAtTheDoor(t *testing.T) {
	serverTLS, clientTLS := credentials(t)
	for _, row := range []struct {
		config Config
		code   Code
		want   string
	}{
		{Config{MaxConnsPerAddress: 1}, ServerFull, "connection limit of 1 reached for 127.0.0.1/32 (Config.MaxConnsPerAddress)"},
		{Config{MaxConnsPerAddress: 1, RetryAbove: -1}, ServerBusy, "the server refused the handshake: it or the client's address has reached a limit"},
	} {
		server := newTestWorld(t, row.config)
		listener, err := Listen("127.0.0.1:0", serverTLS, server.World)
		require.NoError(t, err)
		addr := listener.Addr().String()
		_, err = Dial(t.Context(), addr, clientTLS, newTestWorld(t, Config{}).World)
		require.NoError(t, err)
		_, err = Dial(t.Context(), addr, clientTLS, newTestWorld(t, Config{HandshakeTimeout: 2 * time.Second}).World)
		var closed *CloseError
		require.ErrorAs(t, err, &closed)
		require.Equal(t, row.code, closed.Code)
		require.ErrorContains(t, err, row.want)
		require.Positive(t, server.HandshakeStats().Refused)
		require.NoError(t, listener.Close())
	}
}

// TestCrowdBehindOneAddressJoins: clients are answered before the server knows that
// their handshakes have completed. Before, the answers were held back if others had
// joined from the same address, and each of two hundred waited for a probe timeout.
func TestCrowdBehindOneAddressJoins(t *testing.T) {
	serverTLS, clientTLS := credentials(t)
	_, listener, log := listenLogged(t, serverTLS)
	for range 40 {
		c, err := Dial(t.Context(), listener.Addr().String(), clientTLS, newTestWorld(t, Config{}).World)
		require.NoError(t, err)
		defer c.Close(0, "end of test")
	}
	require.Empty(t, log.With("QUIC packets dropped"))
}
