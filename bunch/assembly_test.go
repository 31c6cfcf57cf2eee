package bunch

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// serialMessage is a message of which every byte pair tells which one it is, so that a mixture shows.
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

// stale is a sender of messages in parts whose packets get lost as a test says, and a receiver that must not mix them.
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

// catchUp has the peer acknowledge what came, so that the sender's history does not hold it up.
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

// TestStaleAssemblyIsNeverCompleted loses all but one part of a message, then as many messages as the 16 bits of their
// numbers count, and one or two less. No later part may complete the first one, whatever the deliveries.
func TestStaleAssemblyIsNeverCompleted(t *testing.T) {
	s := newStale(t)
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		mixed := Delivery(round % 3) // all Unreliable, all UnreliableSequenced, or both
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

// TestAssembliesOfALossyPath mixes sizes, deliveries and datagrams of all lengths, and loses, holds and reorders packets.
func TestAssembliesOfALossyPath(t *testing.T) {
	s := newStale(t)
	type held struct {
		data []byte
		left int
	}
	var late []held
	for range 20_000 {
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
