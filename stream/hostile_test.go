package stream

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/link/linktest"
	"github.com/quivernet/quiver/internal/slices"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// hostile is a peer that says what it likes, all of it legal on the wire unless
// the limits are less: its messages reach the streamer as bytes, on the world's
// goroutine, without taking memory at the sender.
type hostile struct {
	*Peer
	random *rand.Rand
	now    time.Time
	ids    uint64            // headers that were sent
	places map[[2]int64]bool // of transfers: places that were sent
	begun  map[uint64]bool   // transfers of which something was sent
	whole  map[uint64]bool   // of them, those that nils sends
	chunk  uint16
}

func newHostile(p *Peer, random *rand.Rand) *hostile {
	return &hostile{Peer: p, random: random, places: make(map[[2]int64]bool), begun: make(map[uint64]bool), whole: make(map[uint64]bool)}
}

// holed is an element of which a byte says that all is zero.
type holed struct {
	Rows [64]struct{ A, B, C, D float64 }
}

var holes = NewArray[holed]("holes")

// honest is what a peer sends that takes no more than it needs.
var honest = NewBlob("honest")

func (h *hostile) header(kind kind, topic string, shape uint64) {
	h.ids++
	m := header{id: h.ids, kind: kind, topic: topic, hash: BLAKE3, name: string(make([]byte, maxNameBytes)), size: -1, shape: shape}
	if kind == kindArray {
		m.count = 1 << 30
	}
	wire, _ := m.AppendBinary(nil)
	var got header
	if got.UnmarshalBinary(wire) == nil {
		h.receiver.onHeader(got)
	}
}

// part sends a single part: the bytes around it are not sent.
func (h *hostile) part(id uint64, place int64, size int) {
	m := part{id: id, offset: place*maxElementBytes/4 + 1, data: make([]byte, size)}
	key := [2]int64{int64(id), place}
	if h.places[key] || h.whole[id] || place == slicePlace || !h.mayLeave(m) {
		return
	}
	h.places[key], h.begun[id] = true, true
	h.receiver.onPart(append(appendPartHeader(nil, m), m.data...))
}

// slicePlace is the offset of parts that are sent as slices.
const slicePlace = 61

// mayLeave keeps to the credit, because the connection of a peer that does not is closed.
func (h *hostile) mayLeave(m part) bool {
	limit, in := h.receiver.early.limit(), h.receiver.find(m.id)
	if (in == nil || !in.answer.replied) && h.receiver.early.bytes+int64(len(m.data)) > limit {
		return false
	}
	if in != nil {
		limit = in.arrival.parts.limit
	}
	return m.offset+int64(len(m.data)) <= limit
}

// slice sends one slice of a chunk.
func (h *hostile) slice(id uint16, count int) {
	s := chunk.Slice{ChunkID: id, Index: 0, Count: count, Data: make([]byte, slices.Size)}
	if count == 1 { // a whole part
		m := part{id: h.ids + 3, offset: slicePlace*maxElementBytes/4 + 1 + int64(id)*1000, data: make([]byte, 700)}
		if !h.mayLeave(m) {
			return
		}
		s.Data = append(appendPartHeader(nil, m), m.data...)
		h.begun[m.id] = true
	}
	format := chunk.Config{SliceSize: slices.Size}
	extend.Drive(h.conn, func() {
		_ = h.slices.link.Receive(time.Now(), format.AppendSlice([]byte{sliceProtocol}, s))
	})
}

// What WIRE.md says of repair slices.
const (
	repairProtocol = 0x04
	maxParity      = 16
	maxRepaired    = 64
)

func (h *hostile) repair(id uint16, parity, index int) {
	wire := []byte{repairProtocol, byte(id >> 8), byte(id), maxRepaired - 1, byte(parity), byte(index), 0, 1}
	extend.Drive(h.conn, func() { _ = h.slices.link.Receive(time.Now(), append(wire, make([]byte, slices.Size)...)) })
}

// act does something at random.
func (h *hostile) act() {
	r := h.random
	h.now = time.Now()
	switch r.IntN(8) {
	case 0:
		if h.ids < 3 {
			h.header(kindBlob, save.name, 0)
		}
	case 1:
		if h.ids < 3 {
			h.header(kindArray, holes.name, holes.shape)
		}
	case 2, 3:
		h.part(max(1, h.ids)+uint64(r.IntN(2)), int64(r.IntN(200)), 1+r.IntN(maxElementBytes/4-1))
	case 4:
		h.part(max(1, h.ids), int64(r.IntN(200)), 1+r.IntN(100))
	case 5:
		h.chunk++
		h.slice(h.chunk%slices.Pipeline, 1+r.IntN(chunk.MaxSlices))
	case 6:
		h.slice(uint16(r.IntN(3)), 1)
	case 7:
		for index := range maxParity {
			h.repair(uint16(r.IntN(slices.Pipeline)), maxParity, index)
		}
	}
}

// nils sends an array of elements that are all zeros, in order, which the
// application does not take.
func (h *hostile) nils(parts int) {
	if h.begun[h.ids+1] {
		return
	}
	h.header(kindArray, holes.name, holes.shape)
	h.whole[h.ids] = true
	for i := range int64(parts) {
		m := part{id: h.ids, offset: i * 30_000, index: i * 30_000, count: 30_000}
		for range m.count {
			m.data = append(m.data, 0xc0)
		}
		if h.mayLeave(m) {
			h.receiver.onPart(append(appendPartHeader(nil, m), m.data...))
		}
	}
}

// slack is what the streamer may hold for peers beside what it is charged.
const slack = 1 << 20

// TestWhatIsHeldIsCharged runs random programs against a streamer whose
// application consumes nothing, or something.
func TestWhatIsHeldIsCharged(t *testing.T) {
	runs := 12
	if testing.Short() {
		runs = 4
	}
	first := testkit.Seed(t)
	for seed := range uint64(runs) {
		random := rand.New(rand.NewPCG(first+seed, 1))
		inNetwork(t, setup{}, func(n *network) {
			holdAll(n.server.streams)
			n.deafen(n.client.world, n.client.peer)
			s, h := n.server.streams, newHostile(n.server.peer, random)
			before := int64(testkit.Heap())
			for range 40 {
				n.do(n.server.world, func() {
					if random.IntN(10) == 0 && h.ids < 3 {
						h.nils(1 + random.IntN(20))
					}
					for range random.IntN(100) {
						h.act()
					}
				})
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
				require.NoError(n, n.server.peer.conn.Err(), "QUIVER_SEED=%d", first+seed)
				charge, held := s.config.maxMemory()-s.memory.Free(), int64(testkit.Heap())-before
				if held-slack > charge {
					t.Fatalf("QUIVER_SEED=%d: %d bytes are held, %d charged", first+seed, held, charge)
				}
			}
		})
	}
}

// holdAll takes transfers and reads nothing.
func holdAll(s *Streams) {
	save.Handle(s, func(*IncomingBlob) {})
	holes.Handle(s, func(*IncomingArray[holed]) {})
}

// TestHostilePeersStayWithinMaxMemory has many peers hold all they can, each in
// its way, and an honest one beside them.
func TestHostilePeersStayWithinMaxMemory(t *testing.T) {
	const peers = 32
	ways := []func(h *hostile){
		func(h *hostile) { // parts before their headers, of the sizes that waste the most
			for id := range uint64(4) {
				for place := range int64(30) {
					h.part(1+id, place, 8200)
				}
			}
		},
		func(h *hostile) { // tiny parts before their header
			h.begun[1], h.whole[1] = true, true
			for i := range int64(8000) {
				m := part{id: 1, offset: 1 + 2*i, data: []byte{1}}
				h.receiver.onPart(append(appendPartHeader(nil, m), m.data...))
			}
		},
		func(h *hostile) { // slices of chunks that never become whole
			for id := range uint16(slices.Pipeline) {
				h.slice(id, chunk.MaxSlices)
			}
		},
		func(h *hostile) { // repair slices
			for id := range uint16(slices.Pipeline) {
				for index := range maxParity {
					h.repair(id, maxParity, index)
				}
			}
		},
		func(h *hostile) { // transfers that nobody reads
			for id := range uint64(4) {
				h.header(kindBlob, save.name, 0)
				for place := range int64(100) {
					h.part(1+id, place, 16_000)
				}
			}
		},
		func(h *hostile) { h.nils(20) },
	}
	synctest.Test(t, func(t *testing.T) {
		n := newSiege(t, Config{}, peers)
		holdAll(n.streams)
		before := int64(testkit.Heap())
		for turn := range 3 {
			n.attack(func(i int, h *hostile) {
				if turn == 0 {
					ways[i%len(ways)](h)
				}
				for range 50 * turn {
					h.act()
				}
			})
			n.checkMemory(before)
		}
		got := n.take()
		_, peer := n.join()
		data := content(5 << 20)
		require.NoError(t, honest.Send(t.Context(), peer, bytes.NewReader(data), int64(len(data))))
		require.True(t, bytes.Equal(data, <-got))
		n.end()
	})
}

// TestAwaitedChunksStayWithinMaxMemory: at all of many peers, the chunk that is
// awaited is never completed. Transfers that began before continue within what
// they were promised, and a peer that arrives late is served when they have ended.
func TestAwaitedChunksStayWithinMaxMemory(t *testing.T) {
	const peers, transfers = 40, 4
	synctest.Test(t, func(t *testing.T) {
		n := newSiege(t, Config{MaxMemory: 8 << 20, MaxPending: minPending}, peers)
		got := n.take()
		data := content(1 << 20)
		gates := make([]*io.PipeWriter, transfers)
		sent := make(chan error, transfers)
		for i := range gates {
			var from *io.PipeReader
			from, gates[i] = io.Pipe()
			_, peer := n.join()
			via := []Backend{Slices{}, Window{}}[i%2]
			go func() { sent <- honest.Send(t.Context(), peer, from, int64(len(data)), Via(via)) }()
			_, err := gates[i].Write(data[:1000])
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		before := int64(testkit.Heap())
		n.attack(func(_ int, h *hostile) {
			for count := chunk.MaxSlices; count > 1; count /= 2 { // a smaller one if that is refused
				for id := range uint16(3) {
					h.slice(id, count)
				}
			}
		})
		n.checkMemory(before)
		require.Less(t, n.streams.memory.Free(), slices.ChunkBytes(chunk.MaxSlices), "nothing is left for one more")
		for _, gate := range gates {
			go func() { _, _ = gate.Write(data[1000:]) }()
		}
		for range gates {
			require.NoError(t, <-sent)
			require.True(t, bytes.Equal(data, <-got))
		}
		n.end()
	})
}

// siege is a world with hostile peers around it.
type siege struct {
	*network
	world   *rpc.World
	streams *Streams
	worlds  []*rpc.World
	peers   []*hostile
}

func newSiege(t *testing.T, config Config, peers int) *siege {
	world, s := newWorld(t, rpc.Config{}, config)
	n := &siege{network: &network{T: t, drove: make(chan struct{}, 2*peers)}, world: world, streams: s, worlds: []*rpc.World{world}}
	n.ctx, n.cancel = t.Context(), func() {}
	n.joined = make(chan *rpc.Conn, 1)
	world.OnConnect(func(c *rpc.Conn) { n.joined <- c })
	go n.drive(world)
	random := testkit.Rand(t)
	for range peers {
		near, peer := n.join()
		n.deafen(peer.conn.World(), peer)
		n.peers = append(n.peers, newHostile(s.Peer(near), random))
	}
	return n
}

// join adds a client.
func (n *siege) join() (near *rpc.Conn, peer *Peer) {
	client, streams := newWorld(n.T, rpc.Config{}, Config{})
	n.worlds = append(n.worlds, client)
	go n.drive(client)
	near, far := n.attach(n.world, client)
	return near, streams.Peer(far)
}

// attack has every hostile peer do something, which is legal.
func (n *siege) attack(act func(i int, h *hostile)) {
	for i, h := range n.peers {
		n.do(n.world, func() {
			h.now = time.Now()
			act(i, h)
		})
	}
	time.Sleep(time.Second)
	for _, h := range n.peers {
		require.NoError(n, h.conn.Err())
	}
}

// checkMemory asserts that what is held is charged, and that the budget has it.
func (n *siege) checkMemory(before int64) {
	most, peers := n.streams.config.maxMemory(), len(n.peers)
	held, charged := int64(testkit.Heap())-before, most-n.streams.memory.Free()
	n.Logf("%d peers hold %.1f MiB, charged are %.1f of %d MiB", peers, mib(held), mib(charged), most>>20)
	require.LessOrEqual(n, held-int64(peers)*connectionBytes-slack, charged)
	require.LessOrEqual(n, charged, most)
}

// take reads what honest peers send.
func (n *siege) take() (got chan []byte) {
	got = make(chan []byte, 8)
	honest.Handle(n.streams, func(in *IncomingBlob) {
		go func() {
			data, _ := io.ReadAll(in)
			got <- data
		}()
	})
	return got
}

// end closes all worlds; nothing stays charged.
func (n *siege) end() {
	for _, w := range n.worlds {
		require.NoError(n, w.Close(n.ctx, 0, "over"))
	}
	for range n.worlds {
		<-n.drove
	}
	require.Equal(n, n.streams.config.maxMemory(), n.streams.memory.Free())
}

// connectionBytes is what a connection takes that was idle before, in rpc and below.
const connectionBytes = 8 << 10

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// attach joins a client's world to a server's.
func (n *network) attach(server, client *rpc.World) (near, far *rpc.Conn) {
	a, b := linktest.Pipe()
	_, err := server.Attach(plug{a})
	require.NoError(n, err)
	far, err = client.Connect(n.ctx, plug{b})
	require.NoError(n, err)
	return <-n.joined, far
}

// deafen lets a client hear answers to transfers that it never sent.
func (n *network) deafen(w *rpc.World, p *Peer) {
	n.do(w, func() { p.sender.lastID = 1 << 60 })
}

// TestIdleTransfersLeaveRoom: peers of many accounts begin transfers and send nothing, or
// nothing useful, forever. They once had all memory for as long as they were connected.
func TestIdleTransfersLeaveRoom(t *testing.T) {
	const peers = 40
	begin := func(h *hostile) {
		for range 4 {
			h.header(kindBlob, save.name, 0)
		}
	}
	for _, row := range []struct {
		name   string
		first  func(h *hostile)
		answer func(h *hostile) // once the headers were answered
		drip   bool
	}{
		{"nothing but headers", begin, func(*hostile) {}, false},
		{"a byte now and then", begin, func(*hostile) {}, true},
		{"all but the first bytes", begin, func(h *hostile) {
			for id := range uint64(4) {
				for place := range int64(3) {
					h.part(1+id, 1+place, 16_000)
				}
			}
		}, true},
		{"parts without a header", func(h *hostile) {
			for id := range uint64(4) {
				for place := range int64(30) {
					h.part(1+id, place, 8200)
				}
			}
		}, func(*hostile) {}, false},
		{"slices of chunks that never become whole", func(h *hostile) {
			for id := range uint16(200) {
				h.slice(id, chunk.MaxSlices)
			}
		}, func(*hostile) {}, false},
		{"repair slices", func(h *hostile) {
			for id := range uint16(200) {
				for index := range maxParity {
					h.repair(id, maxParity, index)
				}
			}
		}, func(*hostile) {}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newSiege(t, Config{MaxMemory: 16 << 20}, peers)
				save.Handle(n.streams, func(in *IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
				got := n.take()
				n.attack(func(_ int, h *hostile) { row.first(h) })
				n.attack(func(_ int, h *hostile) { row.answer(h) })
				_, peer := n.join()
				data := content(5 << 20)
				send := func() error { return honest.Send(t.Context(), peer, bytes.NewReader(data), int64(len(data))) }
				sent := make(chan error, 1)
				go func() { sent <- send() }()
				for i := range 8 {
					time.Sleep(idleTime / 4)
					if row.drip {
						n.attack(func(_ int, h *hostile) { h.drip(int64(i)) })
					}
				}
				if err := <-sent; err != nil { // there was no room for as long as it waits
					t.Log(err)
					require.ErrorIs(t, err, ErrRejected)
					require.NoError(t, send())
				}
				require.True(t, bytes.Equal(data, <-got))
				n.end()
			})
		})
	}
}

// TestStuckTransfersEnd: peers fill all memory that they were promised with
// parts after one that never arrives, and an honest consumer is slow. The next
// honest peer gets the memory of a stuck transfer, which is ended and counted.
func TestStuckTransfersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSiege(t, Config{MaxMemory: 16 << 20}, 40)
		save.Handle(n.streams, func(in *IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
		slow, read, got := true, make(chan struct{}), make(chan []byte, 2)
		honest.Handle(n.streams, func(in *IncomingBlob) {
			waits := slow
			slow = false
			go func() {
				if waits {
					<-read
				}
				data, _ := io.ReadAll(in)
				got <- data
			}()
		})
		n.attack(func(_ int, h *hostile) {
			for range 4 {
				h.header(kindBlob, save.name, 0)
			}
		})
		n.attack(func(_ int, h *hostile) {
			for id := range uint64(4) {
				for place := range int64(300) {
					h.part(1+id, 1+place, 16_000)
				}
			}
		})
		data, sent := content(5<<20), make(chan error, 2)
		for range 2 {
			_, peer := n.join()
			go func() { sent <- honest.Send(t.Context(), peer, bytes.NewReader(data), int64(len(data))) }()
			time.Sleep(3 * idleTime)
		}
		close(read)
		for range 2 {
			require.NoError(t, <-sent)
			require.True(t, bytes.Equal(data, <-got))
		}
		evicted := uint64(0)
		for _, h := range n.peers {
			evicted += h.Stats().Evicted
		}
		require.Positive(t, evicted)
		n.end()
	})
}

// TestPausedSendersGoOn: transfers that pause for long continue, whether others
// took what was promised to them or not, while there is room.
func TestPausedSendersGoOn(t *testing.T) {
	const senders = 10
	for _, taken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newSiege(t, Config{MaxMemory: 16 << 20}, 0)
			got, data := n.take(), content(300_000)
			var gates []*io.PipeWriter
			sent := make(chan error, senders)
			for range senders {
				from, gate := io.Pipe()
				gates = append(gates, gate)
				_, peer := n.join()
				go func() { sent <- honest.Send(t.Context(), peer, from, int64(len(data))) }()
				_, err := gate.Write(data[:100_000])
				require.NoError(t, err)
			}
			time.Sleep(3 * idleTime)
			if free := n.streams.memory.Free(); taken {
				n.do(n.world, func() { n.streams.reclaim.search(time.Now()) })
				require.Greater(t, n.streams.memory.Free(), free)
			}
			for range senders {
				go func() { _, _ = gates[0].Write(data[100_000:]) }()
				require.NoError(t, <-sent)
				require.True(t, bytes.Equal(data, <-got))
				gates = gates[1:]
			}
			n.end()
		})
	}
}

// drip sends the next byte of each transfer.
func (h *hostile) drip(at int64) {
	for id := range h.ids {
		if m := (part{id: 1 + id, offset: at, data: []byte{1}}); h.mayLeave(m) {
			h.receiver.onPart(append(appendPartHeader(nil, m), m.data...))
		}
	}
}

// TestStuckTransfersOfOneParty: connections of one address fill all that their address
// may have with parts after one that never arrives. Another connection of that address
// gets the memory of a stuck one, although there is some left for others.
func TestStuckTransfersOfOneParty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world, s := newWorld(t, rpc.Config{MaxConnsPerAddress: -1}, Config{MaxMemory: 16 << 20})
		n := &siege{network: &network{T: t, drove: make(chan struct{}, 200)}, world: world, streams: s, worlds: []*rpc.World{world}}
		n.ctx, n.cancel = t.Context(), func() {}
		n.joined = make(chan *rpc.Conn, 1)
		world.OnConnect(func(c *rpc.Conn) { n.joined <- c })
		go n.drive(world)
		join := func() (*rpc.Conn, *Peer) {
			client, streams := newWorld(t, rpc.Config{}, Config{})
			n.worlds = append(n.worlds, client)
			go n.drive(client)
			a, b := linktest.Pipe()
			_, err := world.Attach(addressed{plug{a}, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1000 + len(n.worlds)}})
			require.NoError(t, err)
			far, err := client.Connect(t.Context(), plug{b})
			require.NoError(t, err)
			return <-n.joined, streams.Peer(far)
		}
		save.Handle(s, func(*IncomingBlob) {})
		got := n.take()
		for range 60 {
			near, peer := join()
			n.deafen(peer.conn.World(), peer)
			n.peers = append(n.peers, newHostile(s.Peer(near), nil))
		}
		n.attack(func(_ int, h *hostile) {
			for range 4 {
				h.header(kindBlob, save.name, 0)
			}
		})
		for range 3 {
			n.attack(func(_ int, h *hostile) {
				for id := range uint64(4) {
					for place := range int64(300) {
						h.part(1+id, 1+place, 16_000)
					}
				}
			})
		}
		time.Sleep(2 * idleTime)
		n.do(world, func() { require.False(t, s.reclaim.crowded(), "others have room") })
		data := content(300_000)
		_, peer := join()
		require.NoError(t, honest.Send(t.Context(), peer, bytes.NewReader(data), int64(len(data))))
		require.True(t, bytes.Equal(data, <-got))
		n.end()
	})
}
