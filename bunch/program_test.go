package bunch

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// program is a hostile peer whose actions are determined by bytes. It only sends what the
// protocol allows, so that the connection stays open.
type program struct {
	*hostile
	bytes []byte
	ops   []byte // it draws from these
	peers []uint64
	next  uint64 // number that it opens next
}

func (p *program) byte() int {
	if len(p.bytes) == 0 {
		return 0
	}
	b := p.bytes[0]
	p.bytes = p.bytes[1:]
	return int(b)
}

// channel picks an open channel of either side.
func (p *program) channel() *channel {
	all := append(slices.Clone(p.own), p.peers...)
	if ch := p.c.channels.open[all[p.byte()%len(all)]]; ch != nil {
		return ch
	}
	return p.c.channels.open[p.own[0]]
}

// sequence returns the sequence of an entry: the next, one close to it, or one far ahead.
func (p *program) sequence(ch *channel) int {
	far := slotsOf(ch.number, p.c.config.ReliableBuffer) - 1
	switch p.byte() % 4 {
	case 0:
		return int(ch.expected)
	case 1:
		return int(ch.expected) + 1 + p.byte()%8
	case 2:
		return int(ch.expected) + far
	}
	return int(ch.expected) + p.byte()%far
}

func (p *program) size() int {
	switch p.byte() % 3 {
	case 0:
		return p.byte() % 4
	case 1:
		return p.byte()
	}
	return min(1098, 5*p.byte())
}

func (p *program) step() {
	filler := 0
	if p.byte()%4 == 0 {
		filler = 5 * p.byte()
	}
	switch op := p.ops[p.byte()%len(p.ops)]; op {
	case 0, 1:
		p.whole(byte(op), filler)
	case 2:
		p.piece(filler)
	case 3, 4:
		flags := flagWhole | byte(Unreliable) + byte(op&1)
		p.unordered(appendBunch(nil, header{flags: flags, channel: p.channel().number}, make([]byte, p.size())), filler)
	case 5:
		p.unordered(unreliablePart(p.channel().number, Unreliable, uint16(p.byte()%8), byte(p.byte()%60), p.byte()%2 == 0, EntryBytes), filler)
	case 6:
		p.open()
	case 7:
		p.close()
	case 8:
		for range p.byte() {
			p.c.Next()
		}
	case 9:
		p.drain(p.byte()%2 == 0)
	case 10:
		p.run()
	case 11:
		p.packet(appendPacketHeader(nil, &packetHeader{flags: flagPing | flagAckNow, number: p.number}))
	case 12:
		if len(p.peers) > 0 {
			p.unordered(trackedBunch(p.peers[p.byte()%len(p.peers)], string(make([]byte, p.size()))), filler)
		}
	}
}

func (p *program) unordered(bunch []byte, filler int) {
	if p.c.channels.open[p.own[0]] != nil {
		p.sends(filler, bunch)
	}
}

func (p *program) whole(d byte, filler int) {
	ch, size, messages := p.channel(), p.size(), 1
	if p.byte()%3 == 0 {
		messages = min(32, 1098/(size+2))
	}
	n := p.sequence(ch)
	if !ch.opened || ch.run.open || ch.inClosed || !p.fits(ch, n, true) || !p.paysFor(3000+messages*messageCost) {
		return
	}
	p.sends(filler, p.entry(d, ch.number, n, max(1, messages), size))
}

// fits reports whether a whole entry may have a sequence, rather than one that a run or close
// needs.
func (p *program) fits(ch *channel, n int, whole bool) bool {
	i, there := ch.in.find(uint64(n))
	return !there || whole && ch.in.at(i).state >= full
}

func (p *program) piece(filler int) {
	ch, total := p.channel(), 20+p.size()
	n := p.sequence(ch)
	if !ch.opened || ch.run.open || ch.inClosed || uint64(n) == ch.expected || !p.fits(ch, n, false) || !p.paysFor(3000) {
		return
	}
	p.sends(filler, p.hostile.piece(ch.number, n, min(total, EntryBytes)))
}

// run begins, continues or ends a long message.
func (p *program) run() {
	ch := p.channel()
	if !ch.opened || ch.inClosed || ch.in.len() > 0 || !p.paysFor(3000) {
		return
	}
	flags := byte(0)
	switch {
	case !ch.run.open:
		flags = flagBegin
	case p.byte()%8 == 0 || len(ch.run.parts) > 55:
		flags = flagEnd
	}
	p.sends(0, partOf2(ch.number, flags, int(ch.expected), p.size()))
}

// open opens a channel, or sends what comes after its open first.
func (p *program) open() {
	if !p.paysFor(3000) {
		return
	}
	n := p.next
	p.next += 2 * uint64(1+p.byte()%3)
	flags, sequence := byte(flagOpen), 0
	if p.byte()%4 == 0 {
		flags, sequence = 0, 1+p.byte()
	}
	if p.sends(0, p.entry(flags, n, sequence%p.c.config.ReliableBuffer, 1, p.byte()%50)) {
		p.peers = append(p.peers, n)
	}
}

func (p *program) close() {
	ch := p.channel()
	if ch.number == p.own[0] || !ch.opened || ch.run.open || ch.inClosed || ch.in.len() > 0 || !p.paysFor(3000) {
		return
	}
	if p.sends(0, p.entry(flagClose, ch.number, int(ch.expected), 1, 0)) {
		p.peers = slices.DeleteFunc(p.peers, func(n uint64) bool { return n == ch.number })
	}
}

// holds returns the cost of everything that c holds: what is charged to its limits, and the
// channels that the peer opened and the owner accepted, which MaxChannels limits.
func (c *Conn) holds() int {
	accepted := 0
	for _, ch := range c.channels.open {
		if ch.opened && !ch.ours && ch.number != 0 {
			accepted++
		}
	}
	return int(c.flow.received-c.flow.consumed) + c.flow.control + c.assemblies.cost + c.assemblies.waiting + c.payloads.pinned + accepted*channelCost
}

// runProgram runs a program in batches. After each batch, it asserts that the heap has grown by
// no more than the cost of what is held and what is allowed in addition.
func runProgram(t testing.TB, ops, program_ []byte, batch int) (most int) {
	p := &program{hostile: newHostile(t, Config{ReceiveLimit: 4 << 20, ReliableBuffer: 1024}, 20), bytes: program_, ops: ops, next: 1}
	p.base = testkit.Heap()
	for len(p.bytes) > 0 && p.err == nil {
		for range batch {
			p.step()
		}
		rise, holds := p.rises(), p.c.holds()
		require.LessOrEqual(t, rise-allowed, holds, "%d packets", p.number)
		checkConn(t, p.c)
		most = max(most, rise)
	}
	require.NoError(t, p.err, "what it writes is legal")
	return most
}

// TestHeapIsCharged: whatever a peer sends within the rules of the protocol, heap - 1 MiB <=
// cost.
func TestHeapIsCharged(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	programs := 12
	if testing.Short() {
		programs = 4
	}
	for range programs {
		ops := make([]byte, 1+random.IntN(6))
		for i := range ops {
			ops[i] = byte(random.IntN(13))
		}
		bytes := make([]byte, 40_000)
		for i := range bytes {
			bytes[i] = byte(random.Uint32())
		}
		most := runProgram(t, ops, bytes, 1000)
		t.Logf("%v: %d KiB at most", ops, most>>10)
	}
}

// FuzzHeapIsCharged runs programs that the fuzzer chooses.
func FuzzHeapIsCharged(f *testing.F) {
	f.Add([]byte{0, 1, 2, 8}, []byte("a program of 40 bytes that does whatever"))
	f.Fuzz(func(t *testing.T, ops, program []byte) {
		for i := range ops {
			ops[i] %= 13
		}
		if len(ops) > 0 {
			runProgram(t, ops, program, 500)
		}
	})
}
