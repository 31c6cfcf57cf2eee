package stream

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	standard "slices"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/slices"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// restTime is how long after its last transfer a connection has got rid of all
// that it held for transfers.
const restTime = 90 * time.Second

// TestCanceledSlicesLeaveNothingBehind: a receiver with the least memory
// refuses slices. That of transfers that were canceled or rejected it takes in
// all the same, so that the sender is rid of them.
func TestCanceledSlicesLeaveNothingBehind(t *testing.T) {
	for _, c := range []struct {
		name string
		stop func(in *IncomingBlob, out func())
	}{
		{"canceled by the sender", func(_ *IncomingBlob, out func()) { out() }},
		{"canceled by the receiver", func(in *IncomingBlob, _ func()) { in.Cancel(errTest) }},
		{"rejected", func(in *IncomingBlob, _ func()) { in.Reject(errTest) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inNetwork(t, setup{via: Slices{}, client: Config{MaxMemory: transferBytes}}, func(n *network) {
				come := make(chan *IncomingBlob, 8)
				save.Handle(n.client.streams, func(in *IncomingBlob) { come <- in })
				small := make(chan []byte, 64)
				echoTo(small, n.client.streams)
				for range 8 {
					out := n.mustStart(n.server.peer, content(1<<20))
					select {
					case in := <-come:
						c.stop(in, func() { out.Cancel(errTest) })
					case <-out.Done(): // rejected, for want of memory
					}
					<-out.Done()
				}
				time.Sleep(restTime)
				n.requireRest(n.server, n.client)
				n.passes(n.server.peer, small)
			})
		})
	}
}

var echo = NewBlob("echo")

// echoTo has an end take blobs whole.
func echoTo(got chan<- []byte, s *Streams) {
	echo.Handle(s, func(in *IncomingBlob) {
		go func() {
			if data, err := io.ReadAll(in); err == nil {
				got <- data
			}
		}()
	})
}

// passes asserts that a small transfer by either backend goes through.
func (n *network) passes(p *Peer, got <-chan []byte) {
	n.Helper()
	for _, via := range []Backend{Slices{}, Window{}} {
		data := content(1000)
		out, err := echo.Start(p, bytes.NewReader(data), int64(len(data)), Via(via))
		require.NoError(n, err)
		select {
		case <-out.Done():
			require.NoError(n, out.Err())
			require.True(n, bytes.Equal(data, <-got))
		case <-time.After(time.Minute):
			require.Fail(n, fmt.Sprintf("a small transfer by %T stands still", via))
		}
	}
}

// requireRest asserts that none of the ends holds anything for transfers.
func (n *network) requireRest(ends ...end1) {
	n.Helper()
	for i, e := range ends {
		n.do(e.world, func() {}) // nobody is woken by the last ack of a lane
		time.Sleep(time.Second)
		var left []string
		n.do(e.world, func() { left = e.leftovers() })
		require.Empty(n, left, "end %d", i)
	}
}

// leftovers names what the end holds although there are no transfers. It is
// called on the world's goroutine.
func (e *end1) leftovers() (all []string) {
	p, s := e.peer, e.streams
	count := func(what string, n int64) {
		if n != 0 {
			all = append(all, fmt.Sprint(what, " ", n))
		}
	}
	p.live.mu.Lock()
	count("live", int64(len(p.live.transfers)))
	p.live.mu.Unlock()
	count("queue", int64(len(p.sender.queue.waiting)+len(p.sender.sending)+len(p.receiver.receiving)))
	count("stock of the connection", p.stocked.Bytes())
	count("lanes hold", int64(p.window.unackedBytes))
	count("early", p.receiver.early.bytes)
	what, charged := p.account.Charge()
	count("held", what.Held)
	count("promised", what.Promised)
	if what.Borrowed != slices.ReceiverBytes { // which stay
		count("borrowed", what.Borrowed)
	}
	count("charged", charged-what.Borrowed)
	extend.Drive(p.conn, func() { count("slices unsent", int64(p.slices.link.Queued())) })
	used := s.config.maxMemory() - s.memory.Free()
	for _, peer := range s.joined {
		_, charged := peer.account.Charge()
		used -= charged
	}
	count("memory of the world", used)
	count("stock of the world", s.stock.Used())
	count("writers", int64(s.contentsWritten()))
	return all
}

// contentsWritten returns how many contents are being written to Stores.
func (s *Streams) contentsWritten() (n int) {
	s.writers.Range(func(any, any) bool { n++; return true })
	return n
}

// TestCanceledTransfersLeaveTheQueue: even those after one that waits for its
// turn, which the peer may never give it.
func TestCanceledTransfersLeaveTheQueue(t *testing.T) {
	inNetwork(t, setup{client: Config{MaxTransfers: 1}, server: Config{MaxQueued: 4}}, func(n *network) {
		save.Handle(n.client.streams, func(*IncomingBlob) {}) // nobody reads
		n.mustStart(n.server.peer, content(1000))
		n.mustStart(n.server.peer, content(1000))
		for range 10 {
			n.mustStart(n.server.peer, content(1000)).Cancel(errTest)
			time.Sleep(time.Second)
			require.Equal(n, 1, n.server.peer.Stats().Waiting)
		}
	})
}

// restRuns is how many programs runPrograms runs.
var restRuns = flag.Int("rest", 40, "programs of transfers after which nothing is left")

// TestNothingIsLeftBehind mixes transfers by both backends, either way, that are canceled,
// rejected, fail or go through, over a path that loses and is interrupted, with next to no memory.
func TestNothingIsLeftBehind(t *testing.T) {
	runPrograms(t, 5, testNothingIsLeftBehind)
}

// runPrograms runs as many programs as the flag says, brief ones at most with
// -short, each by a seed of its own.
func runPrograms(t *testing.T, brief int, program func(t *testing.T, seed uint64)) {
	first, runs := testkit.Seed(t), *restRuns
	if testing.Short() {
		runs = min(runs, brief)
	}
	for seed := first; seed < first+uint64(runs); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { program(t, seed) })
	}
}

func testNothingIsLeftBehind(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	config := func(c Config) Config {
		c.MaxMemory += transferBytes + random.Int64N(3)*random.Int64N(1<<20)
		c.Store = &fickleStore{newMemoryStore(), random.Uint64()}
		return c
	}
	inNetwork(t, setup{
		client: config(Config{MaxPending: 512 << 10, MaxTransfers: 3}),
		server: config(Config{MaxTransfers: 6, MaxMemory: 2 * slices.ReceiverBytes}), // those of two more clients stay
		rpc:    rpc.Config{OnPanic: func(*rpc.Conn, string, any, []byte) {}},
	}, func(n *network) {
		m := &mix{network: n, random: random, loss: float64(random.IntN(3)) * 0.05, small: make(chan []byte, 64)}
		m.handle(n.server.streams)
		m.handle(n.client.streams)
		m.join()
		defer m.leave()
		for range random.IntN(3) {
			m.addClient(config(Config{}))
		}
		for range 10 + random.IntN(30) {
			m.act()
			time.Sleep(time.Duration(random.Int64N(int64(200 * time.Millisecond))))
		}
		m.end()
		time.Sleep(restTime)
		n.requireRest(m.ends...)
		for _, e := range m.ends {
			n.passes(e.peer, m.small)
			time.Sleep(2 * slices.TrimAfter) // that of another connection, which may be all there is
		}
	})
}

// mix is transfers of all kinds between a server and its clients.
type mix struct {
	*network
	random *rand.Rand
	loss   float64
	dark   atomic.Bool // nothing arrives
	ends   []end1
	out    []*Transfer
	small  chan []byte
}

// join takes the newest connection of the network.
func (m *mix) join() {
	for _, c := range m.pipe {
		lose := rand.New(rand.NewPCG(m.random.Uint64(), 1))
		c.SetDrop(func([]byte) bool { return m.dark.Load() || lose.Float64() < m.loss })
	}
	m.ends = append(m.ends, m.server, m.client)
}

// addClient adds a client to the server.
func (m *mix) addClient(config Config) {
	m.client.world, m.client.streams = newWorld(m, m.setup.rpc, config)
	m.handle(m.client.streams)
	go m.drive(m.client.world)
	m.connect()
	m.join()
}

// leave closes all clients except the newest, which is the network's.
func (m *mix) leave() {
	for _, e := range m.ends {
		if !e.world.IsServer() && e.world != m.client.world {
			_ = e.world.Close(m.ctx, 0, "test over")
			<-m.drove
		}
	}
}

func (m *mix) handle(s *Streams) {
	echoTo(m.small, s)
	save.Handle(s, func(in *IncomingBlob) { m.take(in.Incoming, in) })
	items.Handle(s, func(in *IncomingArray[item]) {
		m.take(in.Incoming, readerFunc(func([]byte) (int, error) {
			for range in.Batches(m.ctx) {
			}
			return 0, io.EOF
		}))
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// act starts a transfer, ends one, or interrupts all.
func (m *mix) act() {
	switch r := m.random.IntN(12); {
	case r == 0:
		m.dark.Store(true)
		time.Sleep(time.Duration(m.random.Int64N(int64(8 * time.Second))))
		m.dark.Store(false)
		time.Sleep(2 * time.Second) // or several in a row end the connection
	case r < 4 && len(m.out) > 0:
		m.out[m.random.IntN(len(m.out))].Cancel(errTest)
	case r < 6:
		m.start(items.Start(m.from(), testItems(m.random.IntN(20_000)), m.options("items")...))
	default:
		data := contents[m.random.IntN(len(contents))][:1+m.random.IntN(1<<(8+m.random.IntN(13)))]
		size := int64(len(data))
		if m.random.IntN(3) == 0 {
			size = -1
		}
		m.start(save.Start(m.from(), m.source(data), size, m.options("save")...))
	}
}

func (m *mix) start(out *Transfer, err error) {
	require.NoError(m, err)
	m.out = append(m.out, out)
}

func (m *mix) from() *Peer { return m.ends[m.random.IntN(len(m.ends))].peer }

// source yields data, or fails in the middle.
func (m *mix) source(data []byte) io.Reader {
	part := bytes.NewReader(data[:m.random.IntN(len(data))])
	switch m.random.IntN(10) {
	case 0:
		return io.MultiReader(part, iotest.ErrReader(errTest))
	case 1:
		return io.MultiReader(part, readerFunc(func([]byte) (int, error) { panic("a test's") }))
	case 2: // short of its size
		return part
	}
	return bytes.NewReader(data)
}

// options are drawn. A key is of other content now and then, but not of the other
// kind: a blob that the Store has is not compared with the sender's, as [Key] says.
func (m *mix) options(topic string) []Option {
	all := []Option{Via([]Backend{Slices{}, Window{}}[m.random.IntN(2)]), Name(fmt.Sprint(m.random.IntN(8)))}
	if m.random.IntN(3) == 0 { // the same key for other content: what is stored is another's
		all = append(all, Key(fmt.Sprint(topic, m.random.IntN(3))), Hash(SHA256+Algorithm(m.random.IntN(2))))
	} else if m.random.IntN(2) == 0 {
		all = append(all, Hash([]Algorithm{SHA256, BLAKE3, NoDigest}[m.random.IntN(3)]))
	}
	return all
}

// take does with an incoming transfer what its name says.
func (m *mix) take(in Incoming, content io.Reader) {
	switch in.Name() {
	case "0":
		in.Reject(errTest)
	case "1":
		go func() {
			_, _ = io.CopyN(io.Discard, content, 1000)
			in.Cancel(errTest)
		}()
	case "2": // nobody reads
	case "3":
		in.OnEnd(func(error) { panic("a test's") })
		go func() { _, _ = io.Copy(io.Discard, content) }()
	case "4":
		panic("a test's")
	case "5":
		in.Cancel(errTest)
		go func() { _, _ = io.Copy(io.Discard, content) }()
	default:
		go func() {
			if data, err := io.ReadAll(content); err == nil && !isContent(data) {
				m.Errorf("%d bytes arrived that nobody sent", len(data))
			}
		}()
	}
}

// contents are what blobs are the beginnings of.
var contents = [][]byte{content(1 << 20), content(1<<20 + 1), content(1<<20 + 2)}

func isContent(data []byte) bool {
	return standard.ContainsFunc(contents, func(c []byte) bool { return bytes.HasPrefix(c, data) })
}

// end cancels what nobody reads, and everything that waits for it.
func (m *mix) end() {
	time.Sleep(5 * time.Second)
	for _, out := range m.out {
		out.Cancel(errTest)
	}
}

// fickleStore fails at times.
type fickleStore struct {
	*memoryStore
	state uint64
}

func (s *fickleStore) Open(identity, key string, size int64) (Part, error) {
	s.mu.Lock()
	s.state = s.state*6364136223846793005 + 1442695040888963407
	r := s.state >> 61
	s.mu.Unlock()
	switch r {
	case 0:
		return nil, ErrStoreFull
	case 1:
		return nil, errTest
	}
	p, err := s.memoryStore.Open(identity, key, size)
	if err == nil && r == 2 {
		return &fullPart{Part: p, left: 50_000}, nil
	}
	return p, err
}

// fullPart fails once so much was written.
type fullPart struct {
	Part
	left int
}

func (p *fullPart) Write(b []byte) (int, error) {
	if p.left -= len(b); p.left < 0 {
		return 0, ErrStoreFull
	}
	return p.Part.Write(b)
}
