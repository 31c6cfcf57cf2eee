package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/link"
	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/rpc"
)

// The topics of the tests.
var (
	save  = NewBlob("save")
	items = NewArray[item]("items")
)

type item struct {
	ID   uint32
	Name string   `quiver:"max=24"`
	Tags []uint16 `quiver:"max=6"`
}

// setup of a test with two worlds in virtual time.
type setup struct {
	via            Backend // of both ends; nil = Window
	server, client Config
	rpc            rpc.Config
	clientRPC      *rpc.Config   // nil = rpc
	delay          time.Duration // one way; 0 = 5 ms
	tick           time.Duration // worlds are ticked so often; 0 = Run
	ahead          time.Duration // of the clock of the worlds' ticks
	path           link.Path     // 0 = linktest's
	recovers       func(any)     // of panics out of ticks; nil = they go on
	from           net.Addr      // of each end, as the other one sees it; nil = none
}

// network is a server and a client that stream, joined by a pipe in the fake time of a bubble.
type network struct {
	*testing.T
	ctx    context.Context
	cancel context.CancelFunc
	setup  setup
	server end1
	client end1
	drove  chan struct{}
	joined chan *rpc.Conn
	pipe   [2]*linktest.Carrier
	from   net.Addr // of the client that connects next; nil = none
}

// end1 is one end of the network.
type end1 struct {
	world   *rpc.World
	streams *Streams
	peer    *Peer
}

// overBackends runs a test with each backend.
func overBackends(t *testing.T, test func(t *testing.T, via Backend)) {
	t.Helper()
	for _, c := range []struct {
		name string
		via  Backend
	}{{"window", Window{}}, {"slices", Slices{}}} {
		t.Run(c.name, func(t *testing.T) { test(t, c.via) })
	}
}

// inNetwork runs fn in a bubble, on a goroutine that may wait.
func inNetwork(t *testing.T, s setup, fn func(n *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.server.Backend, s.client.Backend = s.via, s.via
		n := &network{T: t, setup: s, drove: make(chan struct{}, 2), from: s.from}
		n.ctx, n.cancel = context.WithTimeout(t.Context(), time.Hour)
		n.server.world, n.server.streams = newWorld(t, s.rpc, s.server)
		if s.clientRPC == nil {
			s.clientRPC = &s.rpc
		}
		n.client.world, n.client.streams = newWorld(t, *s.clientRPC, s.client)
		n.join()
		defer n.close()
		fn(n)
	})
}

// newWorld returns a world with streams. Its MaxMemory may be too small for Install, because a test
// that wants memory to run out would otherwise need many transfers.
func newWorld(t testing.TB, config rpc.Config, streams Config) (*rpc.World, *Streams) {
	w, err := rpc.NewWorld(config)
	require.NoError(t, err)
	memory := streams.maxMemory()
	streams.MaxMemory = max(memory, streams.minMemory())
	s, err := Install(w, streams)
	require.NoError(t, err)
	s.config.MaxMemory = memory
	s.memory, s.stock = s.config.budgets()
	return w, s
}

func (n *network) join() {
	n.joined = make(chan *rpc.Conn, 1)
	n.server.world.OnConnect(func(c *rpc.Conn) { n.joined <- c })
	go n.drive(n.server.world)
	go n.drive(n.client.world)
	n.connect()
}

// plug makes the end of a pipe a Carrier.
type plug struct{ *linktest.Carrier }

func (p plug) Path() rpc.Path { return rpc.Path(p.Carrier.Path()) }

// addressed is a plug whose peer has an address.
type addressed struct {
	plug
	from net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.from }

// connect joins the two by a new pipe.
func (n *network) connect() {
	near, far := linktest.Pipe()
	n.pipe = [2]*linktest.Carrier{near, far}
	for _, c := range n.pipe {
		c.SetDelay(max(n.setup.delay, time.Microsecond))
		if n.setup.delay == 0 {
			c.SetDelay(5 * time.Millisecond)
		}
		if n.setup.path.Cwnd > 0 {
			c.SetPath(n.setup.path)
		}
	}
	_, err := n.server.world.Attach(addressed{plug{near}, n.from})
	require.NoError(n, err)
	conn, err := n.client.world.Connect(n.ctx, addressed{plug{far}, n.from})
	require.NoError(n, err)
	n.client.peer = n.client.streams.Peer(conn)
	n.server.peer = n.server.streams.Peer(<-n.joined)
}

func (n *network) drive(w *rpc.World) {
	defer func() { n.drove <- struct{}{} }()
	if n.setup.tick == 0 {
		_ = w.Run(n.ctx)
		return
	}
	for n.ctx.Err() == nil {
		time.Sleep(n.setup.tick)
		n.tick(w)
	}
}

func (n *network) tick(w *rpc.World) {
	if n.setup.recovers != nil {
		defer func() {
			if recovered := recover(); recovered != nil {
				n.setup.recovers(recovered)
			}
		}()
	}
	w.Tick(time.Now().Add(n.setup.ahead))
}

// close ends both worlds and their goroutines.
func (n *network) close() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), time.Minute)
	defer cancel()
	_ = n.client.world.Close(ctx, 0, "test over")
	_ = n.server.world.Close(ctx, 0, "test over")
	time.Sleep(time.Second)
	n.cancel()
	<-n.drove
	<-n.drove
}

// content returns size bytes that look random.
func content(size int) []byte {
	b := make([]byte, size)
	source := rand.NewChaCha8([32]byte{byte(size)})
	_, _ = source.Read(b)
	return b
}

// received is what a handler saw of one blob.
type received struct {
	in   *IncomingBlob
	data []byte
	err  error
}

// collect handles blobs by reading them whole.
func collect(s *Streams) <-chan received {
	got := make(chan received, 64)
	save.Handle(s, func(in *IncomingBlob) {
		go func() {
			data, err := io.ReadAll(in)
			got <- received{in, data, err}
		}()
	})
	return got
}

// collectItems takes the items that arrive at one end, and returns how each of
// their transfers ended.
func (n *network) collectItems(s *Streams) <-chan error {
	got := make(chan error, 64)
	items.Handle(s, func(in *IncomingArray[item]) {
		go func() {
			_, err := in.Collect(n.ctx)
			got <- err
		}()
	})
	return got
}

// trickle reads a byte at a time from a reader, after a pause.
type trickle struct {
	r     io.Reader
	pause time.Duration
}

func (t trickle) Read(p []byte) (int, error) {
	time.Sleep(t.pause)
	return t.r.Read(p[:1])
}

var errTest = errors.New("a reason of the test")

// mustStart starts a blob from memory.
func (n *network) mustStart(p *Peer, data []byte, opts ...Option) *Transfer {
	n.Helper()
	t, err := save.Start(p, bytes.NewReader(data), int64(len(data)), opts...)
	require.NoError(n, err)
	return t
}
