package bunch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

// steady moves messages from one end to the other without a path between them, and acks back.
type steady struct {
	*pair
	channel uint64
	bufs    [2][]byte
	lends   bool // hand packets over by ReceiveLent
}

func newSteady(t testing.TB, priority Priority) *steady {
	p := newPair(t, Config{ReceiveLimit: 4 << 20, Random: dice(1)})
	s := &steady{pair: p, channel: p.open(0, priority)}
	for i := range s.bufs {
		s.bufs[i] = make([]byte, 0, 1500)
	}
	return s
}

// exchange lets both ends send until neither has anything left. Payloads alias buf, which is
// only acceptable for tests that don't look at them. A real carrier allocates each datagram.
func (s *steady) exchange() {
	for again := true; again; {
		again = false
		for i, c := range s.ends {
			for {
				b, _, ok := c.AppendPacket(s.now, s.bufs[i], 1404)
				if !ok {
					break
				}
				again = true
				if err := s.hand(1-i, b); err != nil {
					s.t.Fatal(err)
				}
			}
		}
	}
}

func (s *steady) hand(to int, packet []byte) error {
	if s.lends {
		return s.ends[to].ReceiveLent(s.now, packet)
	}
	return s.ends[to].Receive(s.now, packet)
}

func (s *steady) fetch() (n int) {
	for _, ok := s.ends[1].Next(); ok; _, ok = s.ends[1].Next() {
		n++
	}
	return n
}

// tick advances the time so that acks are due.
func (s *steady) tick() {
	s.now = s.now.Add(40 * ms)
	for _, c := range s.ends {
		if err := c.Advance(s.now); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestSteadyStateAllocatesOnlyPayloads measures Send, AppendPacket, Receive, acks and Next
// together. A payload is copied if it's smaller than a quarter of its datagram, and otherwise
// aliases the datagram, so there's at most one allocation.
func TestSteadyStateAllocatesOnlyPayloads(t *testing.T) {
	for _, c := range []struct {
		name     string
		d        Delivery
		size     int
		messages int // a packet
		allocs   float64
	}{
		{"one small reliable a packet", Reliable, 100, 1, 0},
		{"one small unreliable a packet", Unreliable, 100, 1, 0},
		{"one small sequenced a packet", UnreliableSequenced, 100, 1, 0},
		{"one small unordered a packet", ReliableUnordered, 100, 1, 0},
		{"ten merged into an entry", Reliable, 20, 10, 0},
		{"two deliveries a packet, one of them small", Reliable, 1000, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSteady(t, Normal)
			payload := make([]byte, c.size)
			round := func() {
				for range c.messages {
					s.send(0, s.channel, c.d, payload)
				}
				s.exchange()
				if s.fetch() != c.messages {
					t.Fatal("not all came")
				}
				s.tick()
				s.exchange()
			}
			s.send(0, s.channel, Reliable, nil)
			s.exchange()
			s.fetch()
			for range 500 {
				round()
			}
			requireAllocs(t, c.allocs, round)
		})
	}
	t.Run("a small one beside a large one is copied", func(t *testing.T) {
		s := newSteady(t, Normal)
		large, small := make([]byte, 1000), make([]byte, 100)
		round := func() {
			s.send(0, s.channel, Reliable, large)
			s.send(0, s.channel, ReliableUnordered, small)
			s.exchange()
			s.fetch()
			s.tick()
			s.exchange()
		}
		for range 500 {
			round()
		}
		requireAllocs(t, 1, round)
	})
	t.Run("a long one whose memory comes back", func(t *testing.T) {
		s := newSteady(t, Normal)
		s.lends = true
		large := make([]byte, 32<<10)
		round := func() {
			s.send(0, s.channel, Reliable, large)
			s.exchange()
			m, ok := s.ends[1].Next()
			require.True(t, ok)
			s.ends[1].Reuse(&m)
			s.tick()
			s.exchange()
		}
		for range 500 {
			round()
		}
		requireAllocs(t, 0, round)
	})
	t.Run("an unreliable one that is dropped", func(t *testing.T) {
		c, ch := newClient(t, Config{})
		payload := make([]byte, 100)
		requireAllocs(t, 0, func() {
			if err := c.Send(ch, Unreliable, payload); err != nil {
				t.Fatal(err)
			}
			c.dropUnreliable(c.channels.find(ch), 0)
		})
	})
	for _, lends := range []bool{false, true} {
		t.Run(fmt.Sprintf("a long one is assembled, packets are lent: %v", lends), func(t *testing.T) {
			s := newSteady(t, Normal)
			s.lends = lends // then its parts lie in memory that is used again
			large := make([]byte, 32<<10)
			round := func() {
				s.send(0, s.channel, Reliable, large)
				s.exchange()
				s.fetch()
				s.tick()
				s.exchange()
			}
			for range 500 {
				round()
			}
			requireAllocs(t, 1, round)
		})
	}
}

// TestTrackedAllocatesOnlyPayloads does what an owner does at each tick, with losses and with
// messages that are taken back or couldn't be sent.
func TestTrackedAllocatesOnlyPayloads(t *testing.T) {
	for _, c := range []struct {
		name       string
		size, many int
		allocs     float64
	}{
		{"a large one aliases its datagram", 1000, 1, 0},
		{"small ones are copied", 20, 30, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSteady(t, Normal)
			s.send(0, s.channel, Reliable, nil)
			s.exchange()
			s.fetch()
			s.tick()
			s.exchange()
			client, payload, record := s.ends[0], make([]byte, c.size), uint64(0)
			var into [130]Fate
			send := func() {
				for range c.many {
					record++
					if err := client.SendTracked(s.channel, record, payload); err != nil {
						t.Fatal(err)
					}
				}
			}
			round := func() {
				send()
				client.TakeBack()
				send()
				_, number, _ := client.AppendPacket(s.now, s.bufs[0], 1404)
				client.Unsent(number)
				send()
				s.exchange()
				if s.fetch() != c.many {
					t.Fatal("not all came")
				}
				send()
				client.AppendPacket(s.now, s.bufs[0], 1404) // is lost
				s.tick()
				s.exchange()
				s.tick()
				s.exchange()
				if n := client.Fates(into[:]); n != 4*c.many {
					t.Fatal(n, " fates")
				}
			}
			for range 500 {
				round()
			}
			requireAllocs(t, c.allocs, round)
		})
	}
}

// requireAllocs requires the given number of allocations per round. The race detector makes
// pools forget memory now and then, so with it a round only has to run.
func requireAllocs(t *testing.T, want float64, round func()) {
	t.Helper()
	if got := testing.AllocsPerRun(500, round); !testkit.Race {
		require.Equal(t, want, got)
	}
}
