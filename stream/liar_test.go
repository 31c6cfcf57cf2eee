package stream

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/slices"
	"github.com/quivernet/quiver/rpc"
)

// TestLiarsLeaveNothingBehind: one end sends, at random and among real
// transfers, what no honest end does. At worst it loses its connection. Nothing
// of that stays at either end, and other peers continue.
func TestLiarsLeaveNothingBehind(t *testing.T) {
	runPrograms(t, 10, testLiarLeavesNothingBehind)
}

func testLiarLeavesNothingBehind(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	inNetwork(t, setup{
		client: Config{Store: &fickleStore{newMemoryStore(), seed}, MaxMemory: transferBytes},
		server: Config{Store: &fickleStore{newMemoryStore(), ^seed}, MaxMemory: transferBytes + 2*slices.ReceiverBytes},
		rpc:    rpc.Config{OnPanic: func(*rpc.Conn, string, any, []byte) {}},
	}, func(n *network) {
		m := &mix{network: n, random: random, small: make(chan []byte, 64)}
		m.handle(n.server.streams)
		m.handle(n.client.streams)
		m.join()
		defer m.leave()
		m.addClient(Config{})
		l := newLiar(m, m.ends[:2])
		for range 400 {
			l.act()
			time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
		}
		l.from.peer.conn.Close(0, "the liar is through")
		m.end()
		time.Sleep(restTime)
		for _, out := range m.out {
			<-out.Done()
		}
		n.requireRest(m.ends[2:]...)
		l.requireGone()
		n.passes(m.ends[3].peer, m.small)
	})
}

// liar is the end of a connection that says to the other one what it likes.
type liar struct {
	*mix
	from, to end1

	ours, theirs uint64           // ids of the newest transfers either way
	sent         map[uint64]int64 // bytes of parts
}

func newLiar(m *mix, ends []end1) *liar {
	l := &liar{mix: m, from: ends[0], to: ends[1], sent: make(map[uint64]int64)}
	if m.random.IntN(2) == 0 {
		l.from, l.to = l.to, l.from
	}
	return l
}

// act has one of the ends do what it may, or the liar lie.
func (l *liar) act() {
	switch l.random.IntN(6) {
	case 0:
		if l.random.IntN(3) == 0 { // to the liar, who answers
			_, _ = items.Start(l.to.peer, make([]item, l.random.IntN(5000)), l.options("items")...)
			return
		}
		p := []end1{l.from, l.to}[l.random.IntN(2)].peer
		data := contents[0][:1+l.random.IntN(200_000)]
		if out, err := save.Start(p, l.source(data), int64(len(data)), l.options("save")...); err == nil {
			l.out = append(l.out, out)
		}
	case 1:
		if len(l.out) > 0 {
			l.out[l.random.IntN(len(l.out))].Cancel(errTest)
		}
	default:
		l.do(l.to.world, func() { l.theirs = l.to.peer.sender.lastID })
		l.do(l.from.world, func() {
			if pipe := l.from.peer.control.pipe; pipe != nil && pipe.Alive() {
				l.ours = l.from.peer.sender.lastID
				l.lie(pipe)
			}
		})
	}
}

// id is mostly of a transfer that there was.
func (l *liar) id(last uint64) uint64 {
	if l.random.IntN(200) == 0 {
		return 1 + l.random.Uint64N(last+3)
	}
	return max(1, last-l.random.Uint64N(min(last+1, 3)))
}

// number is one that a field of a message may have.
func (l *liar) number() int64 {
	r := l.random
	return []int64{0, 1, r.Int64N(100), r.Int64N(1 << 15), r.Int64N(1 << 17), r.Int64N(1 << 62)}[r.IntN(6)]
}

// lie sends a message, of which any field may be wrong.
func (l *liar) lie(pipe *rpc.Actor) {
	if l.random.IntN(30) == 0 {
		l.pipes(pipe)
		return
	}
	code, about := stopCode(1+l.random.IntN(int(stopCodes)-1)), l.random.IntN(24)
	if none := about < 3 && l.ours == 0 || about >= 3 && about < 7 && l.theirs == 0; none && l.random.IntN(20) > 0 {
		return // else hardly anything would come before it
	}
	switch about {
	case 7:
		hashes := []Algorithm{NoDigest, 7, BLAKE3}[:l.random.IntN(4)]
		_ = limitsMessage.send(pipe, limits{transfers: l.random.IntN(9), lanes: l.random.IntN(maxLanes), early: l.random.IntN(1 << 17), hashes: hashes})
	case 8, 9, 10, 11, 12:
		if headerMessage.send(pipe, l.header()) == nil {
			l.from.peer.sender.lastID++
		}
	case 0, 1:
		_ = endMessage.send(pipe, end{id: l.id(l.ours), size: l.number(), sum: make([]byte, 32*l.random.IntN(2))})
	case 2:
		_ = cancelMessage.send(pipe, stop{l.id(l.ours), code, "a lie"})
	case 3:
		_ = acceptMessage.send(pipe, accept{id: l.id(l.theirs), hasAll: l.random.IntN(4) == 0, offset: l.number() * l.random.Int64N(2),
			index: l.number() * l.random.Int64N(2), limit: l.number()})
	case 4:
		_ = grantMessage.send(pipe, grant{l.id(l.theirs), l.number(), l.number() * l.random.Int64N(2)})
	case 5:
		_ = rejectMessage.send(pipe, stop{l.id(l.theirs), code, "a lie"})
	case 6:
		_ = doneMessage.send(pipe, done{l.id(l.theirs)})
	default:
		l.part()
	}
}

// pipes releases a lane, or opens, destroys or tears off an actor of the
// protocol, at a moment when no honest end does.
func (l *liar) pipes(pipe *rpc.Actor) {
	w, p := l.from.world, l.from.peer
	lanes := p.window.lanes[l.random.IntN(max(1, len(p.window.lanes))):] // from a random one on
	switch n := l.random.IntN(4); {
	case !w.IsServer() && len(lanes) > 0:
		_ = leaveMessage.Call(lanes[0], nil)
	case !w.IsServer():
	case n == 0:
		_, _ = w.Spawn(controlClass, p.conn)
	case n == 1:
		_ = w.Destroy(pipe)
	case n == 2 && len(lanes) > 0:
		_ = w.Destroy(lanes[0])
	case len(lanes) > 0:
		_ = lanes[0].TearOff()
	}
}

func (l *liar) header() header {
	r := l.random
	h := header{id: l.ours + 1, kind: kind(1 + r.IntN(2)), topic: []string{"save", "save", "items", "none"}[r.IntN(4)], name: fmt.Sprint(r.IntN(8)), shape: items.shape}
	if h.size = l.number() - 1; h.kind == kindArray {
		h.count = l.number()
	}
	if h.hash = []Algorithm{SHA256, BLAKE3, NoDigest, 7}[r.IntN(4)]; h.hash != NoDigest {
		h.key = []string{"", "save0", "save1"}[r.IntN(3)]
	}
	return h
}

// part sends a part by either route, mostly after the one before.
func (l *liar) part() {
	p, lanes := l.from.peer, l.from.peer.window.lanes
	m := part{id: l.id(l.ours + 1)}
	if m.offset = l.sent[m.id]; l.random.IntN(20) == 0 {
		m.offset = l.number()
	}
	at := min(m.offset, 1<<20-1<<15) // beyond, other bytes stand there: nothing comes so far
	m.data = contents[0][at:][:1+l.random.IntN(1<<(6+l.random.IntN(10)))]
	l.sent[m.id] = m.offset + int64(len(m.data))
	message := append(appendPartHeader(nil, m), m.data...)
	if l.random.IntN(2) == 0 {
		extend.Drive(p.conn, func() { _ = p.slices.link.Send(message, newBlock(1)) })
	} else if len(lanes) > 0 {
		_ = partMessage.send(lanes[l.random.IntN(len(lanes))], message)
	}
}

// requireGone asserts that neither end has anything of the connection.
func (l *liar) requireGone() {
	for _, e := range []end1{l.from, l.to} {
		var known bool
		l.do(e.world, func() { _, known = e.streams.peers[e.peer.conn] })
		require.False(l, known)
		_, charged := e.peer.account.Charge()
		require.Zero(l, charged)
		require.Zero(l, e.streams.contentsWritten())
		if !e.world.IsServer() {
			require.Equal(l, e.streams.config.maxMemory(), e.streams.memory.Free())
			require.Zero(l, e.streams.stock.Used())
		}
	}
}
