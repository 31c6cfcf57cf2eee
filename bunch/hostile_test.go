package bunch

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/parity"
	"github.com/quivernet/quiver/internal/testkit"
)

// allowed is how much a connection may hold in addition to the receive limit: the other limits
// in cost.go, and the records of sent packets.
const allowed = 1 << 20

// hostile is a peer that sends arbitrary packets to c.
type hostile struct {
	t      testing.TB
	c      *Conn
	own    []uint64 // channels that c opened
	now    time.Time
	number uint32
	base   int // heap before anything came
	err    error
}

// newHostile returns a connection that has opened the given number of channels.
func newHostile(t testing.TB, config Config, own int) *hostile {
	h := &hostile{t: t, now: epoch, base: testkit.Heap()}
	c, err := NewConn(epoch, config)
	require.NoError(t, err)
	h.c = c
	for range own {
		number, err := c.Open(Normal)
		require.NoError(t, err)
		require.NoError(t, c.Send(number, Reliable, nil))
		h.own = append(h.own, number)
	}
	h.drain(true)
	return h
}

// sends passes a packet to the connection, in a datagram of its own and followed by some
// meaningless bytes. It returns false once the connection has ended.
func (h *hostile) sends(filler int, bunches ...[]byte) bool {
	packet := packetOf(h.number, bunches...)
	for filler > 0 {
		n := min(filler, EntryBytes)
		packet = append(packet, h.nothing(n)...)
		filler -= n
	}
	return h.packet(packet)
}

func (h *hostile) packet(packet []byte) bool {
	h.number++
	if h.err == nil {
		h.err = h.c.Receive(h.now, append(make([]byte, 0, len(packet)), packet...))
	}
	return h.err == nil
}

// nothing returns a bunch that is dropped, because it's unreliable and on a channel that the
// peer hasn't opened.
func (h *hostile) nothing(size int) []byte {
	number := uint64(maxChannelNumber)
	if h.c.config.Client {
		number--
	}
	return appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: number}, make([]byte, size))
}

// drain builds all packets that c can send, and may acknowledge them.
func (h *hostile) drain(acks bool) {
	for {
		_, n, ok := h.c.AppendPacket(h.now, nil, 1404)
		if !ok {
			return
		}
		if acks {
			h.packet(appendPacketHeader(nil, &packetHeader{flags: flagAcks | flagLimit, limit: 1 << 30, number: h.number, largest: uint32(n), nruns: 1, runs: [maxAckRuns]uint64{1}}))
		}
	}
}

// fetch takes messages, as the owner does.
func (h *hostile) fetch() {
	for _, ok := h.c.Next(); ok; _, ok = h.c.Next() {
	}
}

// paysFor reports whether the limit allows that many more bytes.
func (h *hostile) paysFor(cost int) bool {
	return h.c.flow.received+uint64(cost) <= h.c.flow.advertised
}

// rises returns by how much the heap has grown.
func (h *hostile) rises() int {
	rise := testkit.Heap() - h.base
	runtime.KeepAlive(h)
	return rise
}

// entry returns a reliable bunch with the given number of messages of a size.
func (h *hostile) entry(flags byte, channel uint64, sequence, messages, size int) []byte {
	var body []byte
	for range messages {
		body = append(appendVarint(body, uint64(size)), make([]byte, size)...)
	}
	return appendBunch(nil, header{flags: flags | flagWhole, channel: channel, sequence: uint16(sequence)}, body)
}

// piece returns a bunch with one byte of an entry.
func (h *hostile) piece(channel uint64, sequence, total int) []byte {
	return appendBunch(nil, header{flags: flagWhole | flagPiece, channel: channel, sequence: uint16(sequence), offset: uint16(total - 1), total: uint16(total)}, []byte{1})
}

// repair returns a repair bunch for the end of a run of which nothing has arrived, and whose
// last entry is empty.
func (h *hostile) repair(channel uint64, first, count, total, index int) []byte {
	return appendRepair(nil, repair{group{channel: channel, flags: flagRepair | flagEnd, first: uint64(first), count: count, total: total}, index, make([]byte, EntryBytes)})
}

// attacks are attempts of a peer to exhaust memory. Each runs until the connection ends or
// there's no more that it can do.
var attacks = []struct {
	name   string
	config Config
	own    int // channels of the side that is attacked
	run    func(h *hostile)
}{
	{"an entry at the end of the reliable buffer of 4,000 channels", Config{}, 0, func(h *hostile) {
		for n := uint64(1); n < 8000 && h.sends(0, h.entry(0, n, 255, 1, 0)); n += 2 {
		}
	}},
	{"the same with a long reliable buffer", Config{ReliableBuffer: 4096}, 0, func(h *hostile) {
		for n := uint64(1); n < 8000 && h.sends(0, h.entry(0, n, 4095, 1, 0)); n += 2 {
		}
	}},
	{"unreliable bunches on 32,000 new numbers", Config{}, 0, func(h *hostile) {
		for n := uint64(1); n < 64_000 && h.sends(0, appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: n}, nil)); n += 2 {
		}
	}},
	{"32 empty messages to an entry", Config{ReceiveLimit: 4 << 20, ReliableBuffer: 16384}, 100, func(h *hostile) {
		for i := 0; h.sends(0, h.entry(0, h.own[i%100], i/100, 32, 0)); i++ {
		}
	}},
	{"parts of a byte that wait for the first", Config{ReceiveLimit: 4 << 20, ReliableBuffer: 16384}, 100, func(h *hostile) {
		for i := 0; h.sends(0, partOf2(h.own[i%100], 0, 1+i/100, 1)); i++ {
		}
	}},
	{"small entries in large datagrams", Config{ReceiveLimit: 4 << 20, ReliableBuffer: 16384}, 100, func(h *hostile) {
		for i := 0; h.sends(880, h.entry(0, h.own[i%100], 1+i/100, 1, 301)); i++ {
		}
	}},
	{"a byte each of long entries", Config{ReceiveLimit: 4 << 20, ReliableBuffer: 16384}, 100, func(h *hostile) {
		for i := 0; h.sends(0, h.piece(h.own[i%100], 1+i/100, 1100)); i++ {
		}
	}},
	{"a byte each of short entries", Config{ReceiveLimit: 4 << 20, ReliableBuffer: 16384}, 100, func(h *hostile) {
		for i := 0; h.sends(0, h.piece(h.own[i%100], 1+i/100, 130)); i++ {
		}
	}},
	{"entries of control that wait for the first", Config{ReliableBuffer: 16384}, 0, func(h *hostile) {
		for i := 1; i < 16384 && h.sends(0, h.entry(0, 0, i, 1, 1098)); i++ {
		}
	}},
	{"long messages of control that nobody fetches", Config{}, 0, func(h *hostile) {
		for i := 0; h.sends(0, h.entry(0, 0, i, 32, 0)); i++ {
		}
	}},
	{"unreliable messages that nobody fetches, in large datagrams", Config{}, 4, func(h *hostile) {
		for i := range 10_000 {
			h.sends(880, appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: h.own[i%4]}, make([]byte, 301)))
		}
	}},
	{"empty unreliable messages that nobody fetches", Config{}, 4, func(h *hostile) {
		for i := range 20_000 {
			h.sends(0, appendBunch(nil, header{flags: flagWhole | byte(Unreliable), channel: h.own[i%4]}, nil))
		}
	}},
	{"parts of unreliable messages", Config{}, 1000, func(h *hostile) {
		for i := range 16_000 {
			h.sends(0, unreliablePart(h.own[i%1000], Unreliable, uint16(i/4000), byte(i/1000%4), false, EntryBytes))
		}
	}},
	{"empty ends of unreliable messages", Config{}, 1000, func(h *hostile) {
		for i := range 4000 {
			h.sends(0, unreliablePart(h.own[i%1000], Unreliable, uint16(i/1000), 59, true, 0))
		}
	}},
	{"channels that open and close, but for every other number", Config{}, 0, func(h *hostile) {
		for n := uint64(1); n < 200_000 && h.sends(0, h.entry(flagOpen|flagClose, n, 0, 1, 0)); n += 4 {
			h.fetch()
			h.drain(true)
		}
	}},
	{"channels that open and close, and never acknowledge our closes", Config{ReceiveLimit: 4 << 20}, 0, func(h *hostile) {
		for n := uint64(1); n < 200_000 && h.sends(0, h.entry(flagOpen|flagClose, n, 0, 1, 0)); n += 2 {
			h.fetch()
			h.drain(false)
		}
	}},
	{"a long message on each of 1,000 channels, fetched", Config{ReceiveLimit: 4 << 20}, 1000, func(h *hostile) {
		for _, n := range h.own {
			h.sends(0, partOf2(n, flagBegin, 0, 1))
			for i := 1; i < 59; i++ {
				h.sends(0, partOf2(n, 0, i, 1))
			}
			h.sends(0, partOf2(n, flagEnd, 59, 1))
			h.fetch()
			h.drain(true)
		}
	}},
	{"messages that overtook one that never comes, fetched", Config{ReceiveLimit: 4 << 20}, 250, func(h *hostile) {
		for i := 0; i < 254*250 && h.sends(0, h.entry(byte(ReliableUnordered), h.own[i/254], 1+i%254, 1, 0)); i++ {
			h.fetch()
			h.drain(true)
		}
	}},
	{"a lost entry behind 254 that came, on each of 400 channels", Config{ReceiveLimit: 4 << 20}, 400, func(h *hostile) {
		for _, n := range h.own {
			for i := 1; i < 256; i++ {
				if i != 254 {
					h.sends(0, h.entry(0, n, i, 1, 0))
				}
			}
			h.sends(0, h.entry(0, n, 0, 1, 0))
			h.fetch()
			h.drain(true)
		}
	}},
	{"tracked messages of a byte, in large datagrams", Config{}, 0, func(h *hostile) {
		h.sends(0, h.entry(flagOpen, 1, 0, 1, 0))
		for range 10_000 {
			h.sends(1000, trackedBunch(1, "x"))
		}
	}},
	{"empty ends of runs, restored", Config{ReceiveLimit: 4 << 20, ReliableBuffer: 16384}, 100, func(h *hostile) {
		for i := 0; h.sends(0, h.repair(h.own[i%100], 2+i/100, 1, 1, 0)); i++ {
		}
	}},
	{"repair bunches that wait, of as many groups and codes as may be", Config{ReceiveLimit: 4 << 20}, 100, func(h *hostile) {
		for count := 1; count <= maxGroupEntries; count++ {
			for index := range count { // the last of them restores
				h.sends(0, h.repair(h.own[0], 1, count, min(count, parity.Most), min(index, parity.Most-1)))
			}
		}
		for i := range 1000 {
			h.sends(0, h.repair(h.own[i%100], 100, 2+i%15, parity.Most, 0))
		}
		for i := range parity.Most - 1 {
			h.sends(0, h.repair(h.own[0], 101, parity.Most, parity.Most, i))
		}
	}},
	{"a repair bunch for each of 100 channels, and no entry", Config{}, 100, func(h *hostile) {
		for i := range 1000 {
			h.sends(0, h.repair(h.own[i%100], 2, maxGroupEntries, 1+i%parity.Most, 0))
		}
	}},
	{"pings, and no ack", Config{}, 0, func(h *hostile) {
		for range 10_000 {
			h.packet(appendPacketHeader(nil, &packetHeader{flags: flagPing | flagAckNow, number: h.number}))
			h.drain(false)
		}
	}},
}

// partOf2 returns a bunch with an entry of a run.
func partOf2(channel uint64, flags byte, sequence, size int) []byte {
	return appendBunch(nil, header{flags: flags, channel: channel, sequence: uint16(sequence)}, make([]byte, size))
}

// TestAttacksStayWithinTheLimit: whatever a peer sends, the heap grows by no more than the
// limit that was announced to it and 1 MiB.
func TestAttacksStayWithinTheLimit(t *testing.T) {
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			h := newHostile(t, attack.config, attack.own)
			h.base = testkit.Heap()
			attack.run(h)
			limit := max(attack.config.ReceiveLimit, minReceiveLimit)
			rise := h.rises()
			t.Logf("%d KiB of heap, limit %d KiB; %d packets; %v", rise>>10, limit>>10, h.number, h.err)
			require.LessOrEqual(t, rise, limit+allowed)
		})
	}
}

// TestMemoryGoesBack: the memory that a flood has filled is freed as soon as its messages are
// taken, even if the peer never stops sending, and all of it once the connection is idle.
func TestMemoryGoesBack(t *testing.T) {
	h := newHostile(t, Config{ReceiveLimit: 4 << 20, ReliableBuffer: 16384}, 100)
	h.base = testkit.Heap()
	for i := 0; h.paysFor(3000); i++ {
		h.sends(0, h.entry(0, h.own[i%100], i/100, 32, 0))
	}
	require.Greater(t, h.rises(), 2<<20)
	h.fetch()
	h.drain(true)
	require.Less(t, h.rises(), 64<<10, "at once")
	h.sends(0, h.entry(0, h.own[0], int(h.c.channels.open[h.own[0]].expected), 1, 0))
	h.fetch()
	for range 2 {
		h.now = h.now.Add(trimAfter)
		require.NoError(t, h.c.Advance(h.now))
	}
	require.Less(t, h.rises(), 16<<10, "when idle")
}
