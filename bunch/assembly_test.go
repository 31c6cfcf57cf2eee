package bunch

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// serialMessage is a message in which every byte pair identifies the message,
// so that a mixture is detected.
func serialMessage(serial uint32, size int) []byte {
	b := make([]byte, 0, size+4)
	for len(b) < size {
		b = binary.BigEndian.AppendUint32(b, serial)
	}
	return b[:size]
}

// requireOneSerial asserts that one message's bytes are all its own.
func requireOneSerial(t testing.TB, b []byte) uint32 {
	serial := binary.BigEndian.Uint32(b)
	for i, got := range b {
		if want := byte(serial >> (24 - 8*(i%4))); got != want {
			t.Fatalf("message %d of %d bytes: byte %d belongs to another", serial, len(b), i)
		}
	}
	return serial
}

// stale is a sender of messages in parts whose packets get lost as a test says,
// and a receiver that must not mix them.
type stale struct {
	*pair
	random *rand.Rand
	main   uint64 // carries messages in parts
	aside  uint64 // carries what keeps acks coming
	serial uint32
	got    int
	newest uint32 // UnreliableSequenced message that was handed out
}

func newStale(t *testing.T) *stale {
	s := &stale{pair: newPair(t, Config{}), random: testkit.Rand(t)}
	s.max = minDatagram // a part each
	s.main, s.aside = s.open(0, Normal), s.open(0, High)
	s.pair.send(0, s.main, Reliable, nil)
	s.pair.send(0, s.aside, Reliable, nil)
	s.pair.run(200 * ms)
	s.take(1)
	return s
}

// message sends one message and lets only the parts arrive that keep says.
func (s *stale) message(d Delivery, size int, keep func(part int) bool) {
	s.serial++
	require.NoError(s.t, s.ends[0].Send(s.main, d, serialMessage(s.serial, size)))
	for part := 0; ; part++ {
		b, _, ok := s.ends[0].AppendPacket(s.now, nil, s.max)
		if !ok {
			break
		}
		if keep(part) {
			require.NoError(s.t, s.ends[1].Receive(s.now, b))
		}
	}
	s.check()
}

func (s *stale) check() {
	for _, m := range s.take(1) {
		if m.Channel != s.main {
			continue
		}
		s.got++
		if serial := requireOneSerial(s.t, m.Payload); m.Delivery == UnreliableSequenced {
			require.Greater(s.t, serial, s.newest, "a sequenced message that is late")
			s.newest = serial
		}
	}
}

// catchUp makes the peer acknowledge everything received, so that the sender's
// history does not stop it.
func (s *stale) catchUp() {
	s.pair.send(0, s.aside, Reliable, nil)
	s.pair.run(300 * ms)
	s.check()
}

// vanish loses all packets that are ready.
func (s *stale) vanish(max int) {
	for _, _, ok := s.ends[0].AppendPacket(s.now, nil, max); ok; _, _, ok = s.ends[0].AppendPacket(s.now, nil, max) {
	}
}

// lose sends n messages of which nothing arrives, in datagrams of all sizes.
func (s *stale) lose(n int, delivery func() Delivery) {
	for i := range n {
		s.serial++
		require.NoError(s.t, s.ends[0].Send(s.main, delivery(), serialMessage(s.serial, EntryBytes+1)))
		if i%150 < 149 && i < n-1 {
			continue
		}
		max := []int{minDatagram, 1404, 9000, 65_507}[s.random.IntN(4)]
		s.vanish(max)
		if i%1050 == 149 {
			s.catchUp()
		}
	}
}

func every(int) bool { return true }

// TestStaleAssemblyIsNeverCompleted loses all but one part of a message, then
// as many messages as the 16 bits of their numbers count, and one or two less.
// No later part may complete the first one, whatever the deliveries.
func TestStaleAssemblyIsNeverCompleted(t *testing.T) {
	s := newStale(t)
	first := s.random.IntN(3)
	for round := range testkit.Brief(1, 6) {
		mixed := Delivery((first + round) % 3) // all Unreliable, all UnreliableSequenced, or both
		delivery := func() Delivery {
			if mixed == 2 {
				return Unreliable + Delivery(s.random.IntN(2))
			}
			return Unreliable + mixed
		}
		s.message(delivery(), EntryBytes+100+s.random.IntN(1000), func(part int) bool { return part == 0 })
		s.lose(1<<16-1-s.random.IntN(3), delivery)
		for range 4 { // a fifth assembly would drive the first one out
			s.message(delivery(), EntryBytes+100+s.random.IntN(1000), func(part int) bool { return part > 0 })
		}
	}
	require.Zero(t, s.got, "none arrived whole")
	require.NotZero(t, s.ends[1].Stats().DroppedAssembly)
	s.message(UnreliableSequenced, 3000, every)
	s.message(Unreliable, 3000, every)
	require.Equal(t, 2, s.got, "nothing is deaf afterwards")
}

// TestPartsFarApart: two parts belong to one message if they arrive within 512
// packets, in either order.
func TestPartsFarApart(t *testing.T) {
	first, last := unreliablePart(1, Unreliable, 7, 0, false, EntryBytes), unreliablePart(1, Unreliable, 7, 1, true, 1)
	for _, apart := range []uint32{1, 512, 513} {
		for _, late := range []bool{false, true} {
			r := newOpened(t, 1)
			low, high := r.number, r.number+apart
			if late {
				low, high = high, low
			}
			require.NoError(t, r.Receive(r.now, packetOf(low, first)))
			require.NoError(t, r.Receive(r.now, packetOf(high, last)))
			_, joined := r.Next()
			require.Equal(t, apart <= 512, joined, "%d apart, late: %v", apart, late)
			require.Equal(t, apart > 512 && late, r.Stats().DroppedLate == 1, "the part is dropped")
			require.Equal(t, apart > 512 && !late, r.Stats().DroppedAssembly == 1, "the older message is given up")
		}
	}
}

// TestAssembliesOfALossyPath mixes sizes, deliveries and datagrams of all
// lengths, and loses, holds and reorders packets.
func TestAssembliesOfALossyPath(t *testing.T) {
	s := newStale(t)
	type held struct {
		data []byte
		left int
	}
	var late []held
	for range testkit.Brief(6000, 20_000) {
		s.max = []int{minDatagram, 1404, 9000, 65_507}[s.random.IntN(4)]
		loss := []float64{0, 0.3, 0.9, 1}[int(s.serial/300)%4]
		for range 1 + s.random.IntN(3) {
			s.serial++
			size := 4 + s.random.IntN(4*EntryBytes)
			require.NoError(t, s.ends[0].Send(s.main, Unreliable+Delivery(s.random.IntN(2)), serialMessage(s.serial, size)))
		}
		for b, _, ok := s.ends[0].AppendPacket(s.now, nil, s.max); ok; b, _, ok = s.ends[0].AppendPacket(s.now, nil, s.max) {
			if s.random.Float64() >= loss {
				late = append(late, held{b, s.random.IntN(1 << s.random.IntN(12))})
			}
		}
		kept := late[:0]
		for _, h := range late {
			if h.left--; h.left >= 0 {
				kept = append(kept, h)
				continue
			}
			require.NoError(t, s.ends[1].Receive(s.now, h.data))
			s.check()
		}
		late = kept
		if s.random.IntN(100) == 0 {
			s.catchUp()
		}
	}
	require.NotZero(t, s.got)
	t.Logf("%d of %d messages", s.got, s.serial)
}

// partsScript lets bytes say what a sender of messages in parts does, at up to
// the rate that the largest datagrams allow, and which of its packets arrive
// when. The receiver must never mix messages.
type partsScript struct {
	*receiver
	bytes   []byte
	packet  uint32 // the sender's next
	message uint16 // likewise
	serial  uint32
	newest  uint32 // UnreliableSequenced message that was handed out
	held    [][]byte
}

func (s *partsScript) next() byte {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return b
}

func (s *partsScript) word() int { return int(s.next())<<8 | int(s.next()) }

func (s *partsScript) run() {
	for len(s.bytes) > 0 {
		switch op := s.next(); {
		case op < 128:
			s.send(Unreliable+Delivery(op&1), 2+int(op>>1&3))
		case op < 192:
			s.release(int(op))
		case op < 216: // about as many as have numbers
			s.lose(1<<16 - int(s.next()&3))
		case op < 240:
			s.lose(s.word())
		default: // packets that hold something else
			s.packet += uint32(s.word()) % 1000
		}
	}
	for len(s.held) > 0 {
		s.release(0)
	}
}

// lose sends n messages of which nothing arrives, as fast as can be.
func (s *partsScript) lose(n int) {
	s.message += uint16(n)
	s.packet += uint32(n+58) / 59
}

// send sends a message whose parts are lost, arrive or are held.
func (s *partsScript) send(d Delivery, parts int) {
	s.serial++
	whole := serialMessage(s.serial, parts*EntryBytes-int(s.next()))
	for part := range parts {
		h := header{flags: byte(d), channel: 1, sequence: s.message, part: uint8(part)}
		if part == 0 {
			h.flags |= flagBegin
		}
		if part == parts-1 {
			h.flags |= flagEnd
		}
		payload := whole[part*EntryBytes : min((part+1)*EntryBytes, len(whole))]
		packet := packetOf(s.packet, appendBunch(nil, h, payload))
		s.packet++
		switch fate := s.next(); {
		case fate < 100:
			s.arrive(packet)
		case fate < 180:
			s.held = append(s.held, packet)
		}
	}
	s.message++
}

func (s *partsScript) release(i int) {
	if len(s.held) > 0 {
		i %= len(s.held)
		packet := s.held[i]
		s.held = append(s.held[:i], s.held[i+1:]...)
		s.arrive(packet)
	}
}

func (s *partsScript) arrive(packet []byte) {
	require.NoError(s.T, s.Conn.Receive(s.now, packet))
	checkConn(s.T, s.Conn)
	for m, ok := s.Next(); ok; m, ok = s.Next() {
		if serial := requireOneSerial(s.T, m.Payload); m.Delivery == UnreliableSequenced {
			require.Greater(s.T, serial, s.newest, "a sequenced message that is late")
			s.newest = serial
		}
	}
}

func newPartsScript(t *testing.T, data []byte) *partsScript {
	return &partsScript{receiver: newOpened(t, 1), bytes: data, packet: 1}
}

func TestPartsScripts(t *testing.T) {
	random := testkit.Rand(t)
	for range testkit.Brief(100, 300) {
		data := make([]byte, random.IntN(1000))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		newPartsScript(t, data).run()
	}
}

// FuzzParts begins with a part of a message, 65,535 messages that are lost, and
// the other part of the next one.
func FuzzParts(f *testing.F) {
	f.Add([]byte{0, 50, 0, 255, 200, 1, 0, 50, 255, 0})
	f.Add([]byte{1, 50, 0, 150, 200, 1, 1, 50, 255, 0, 128})
	f.Fuzz(func(t *testing.T, data []byte) { newPartsScript(t, data).run() })
}
