package bunch_test

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"encoding/binary"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/netsim"
)

// sim is a client and a server over a simulated path.
type sim struct {
	t testing.TB
	*netsim.Pair
	conns [2]*bunch.Conn
	pumps []*pump
	plays []*play
	stop  bool // the server fetches nothing
}

// newSim connects two ends. Each step of the path runs the pumps and plays that were added.
func newSim(t testing.TB, path netsim.Config, pair netsim.PairConfig, config bunch.Config) *sim {
	s := &sim{t: t}
	for i := range s.conns {
		config.Client = i == 0
		c, err := bunch.NewConn(netsim.Epoch, config)
		require.NoError(t, err)
		s.conns[i] = c
	}
	pair.AtoB, pair.BtoA = path, path
	pair.OnStep = s.serve
	pair.Tick, pair.OnTick = time.Second/30, s.tick
	if pair.Max == 0 {
		pair.Max = 1404
	}
	s.Pair = netsim.NewPair(s.conns[0], s.conns[1], pair)
	return s
}

// pump streams messages of one size, using less than half of the reliable buffer, like package
// stream.
type pump struct {
	from, size, left int
	channel          uint64
	total, got       int // messages
}

// play sends a small message 30 times a second, and records how long each takes.
type play struct {
	from    int
	channel uint64
	d       bunch.Delivery
	sent    map[uint32]time.Time
	serial  uint32
	took    []time.Duration
	until   time.Time
}

func (s *sim) pump(from, size, count int) *pump {
	channel, err := s.conns[from].Open(bunch.Bulk)
	require.NoError(s.t, err)
	p := &pump{from: from, size: size, left: count, total: count, channel: channel}
	s.pumps = append(s.pumps, p)
	return p
}

func (s *sim) play(from int, d bunch.Delivery) *play {
	channel, err := s.conns[from].Open(bunch.High)
	require.NoError(s.t, err)
	require.NoError(s.t, s.conns[from].Send(channel, bunch.Reliable, make([]byte, 4)))
	p := &play{from: from, channel: channel, d: d, sent: map[uint32]time.Time{0: s.Now()}}
	s.plays = append(s.plays, p)
	return p
}

func (s *sim) serve(now time.Time) {
	for to, c := range s.conns {
		if s.stop && to == 1 {
			continue
		}
		for m, ok := c.Next(); ok; m, ok = c.Next() {
			s.take(1-to, m, now)
		}
	}
	for _, p := range s.pumps {
		p.fill(s)
	}
}

func (s *sim) take(from int, m bunch.Message, now time.Time) {
	for _, p := range s.pumps {
		if p.from == from && p.channel == m.Channel {
			require.Equal(s.t, p.size, len(m.Payload))
			require.True(s.t, bytes.Equal(m.Payload, content(p.size, p.got)), "message %d", p.got)
			p.got++
		}
	}
	for _, p := range s.plays {
		if p.from == from && p.channel == m.Channel {
			serial := binary.BigEndian.Uint32(m.Payload)
			require.Contains(s.t, p.sent, serial)
			p.took = append(p.took, now.Sub(p.sent[serial]))
			delete(p.sent, serial)
		}
	}
}

func (p *pump) fill(s *sim) {
	c := s.conns[p.from]
	for ; p.left > 0; p.left-- {
		if out, slots := c.Reliable(p.channel); out >= slots/2 {
			return
		}
		require.NoError(s.t, c.Send(p.channel, bunch.Reliable, content(p.size, p.total-p.left)))
	}
}

func (s *sim) tick(now time.Time) {
	for _, p := range s.plays {
		if !p.until.IsZero() && now.After(p.until) {
			continue
		}
		p.serial++
		p.sent[p.serial] = now
		payload := make([]byte, 100)
		binary.BigEndian.PutUint32(payload, p.serial)
		require.NoError(s.t, s.conns[p.from].Send(p.channel, p.d, payload))
	}
}

func (s *sim) pumped() bool {
	for _, p := range s.pumps {
		if p.got < p.total {
			return false
		}
	}
	return true
}

func content(size, n int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i + i>>8 + n*31)
	}
	return b
}

// percentile returns a percentile of times, which it sorts.
func percentile(times []time.Duration, p float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	return times[min(len(times)-1, int(p*float64(len(times))))]
}

// drain runs until nothing is in flight.
func (s *sim) drain() {
	require.NoError(s.t, s.Run(time.Minute, func() bool { return s.conns[0].Drained() && s.conns[1].Drained() }))
}

func TestNothingIsLost(t *testing.T) {
	for _, loss := range []float64{0, 0.01, 0.05, 0.2, 0.5} {
		t.Run(strconv.FormatFloat(loss, 'f', -1, 64), func(t *testing.T) {
			path := netsim.Config{Delay: 25 * time.Millisecond, Jitter: 5 * time.Millisecond, Rate: 20e6, Queue: 200_000, Loss: loss,
				Duplicate: 0.05, Reorder: 0.05, ReorderDelay: 30 * time.Millisecond, Seed: testkit.Seed(t)}
			s := newSim(t, path, netsim.PairConfig{}, bunch.Config{ReceiveLimit: 1 << 20})
			s.pump(0, 32<<10, 60)
			s.pump(0, 65536, 20)
			s.pump(1, 1099, 300)
			s.pump(1, 40, 2000)
			var plays []*play
			for from := range 2 {
				for d := bunch.Reliable; d <= bunch.UnreliableSequenced; d++ {
					plays = append(plays, s.play(from, d))
				}
			}
			require.NoError(t, s.Run(20*time.Minute, s.pumped))
			for _, p := range plays {
				p.until = s.Now()
			}
			require.NoError(t, s.RunFor(10*time.Second))
			s.drain()
			for _, p := range plays {
				if p.d <= bunch.ReliableUnordered {
					require.Empty(t, p.sent, "%v from %d", p.d, p.from)
				}
			}
		})
	}
}

// TestBulkKeepsNoStandingQueue streams over 10 Mbit/s and 50 ms for 25 s, so that the minimum
// RTT expires twice.
func TestBulkKeepsNoStandingQueue(t *testing.T) {
	const rate = 10e6
	path := netsim.Config{Delay: 25 * time.Millisecond, Rate: rate, Queue: 128 << 10}
	s := newSim(t, path, netsim.PairConfig{Window: 62_500 + 128<<10}, bunch.Config{ReceiveLimit: 4 << 20})
	s.pump(0, 32<<10, 900)
	p := s.play(0, bunch.Reliable)
	start := s.Now()
	var queue []time.Duration
	require.NoError(t, s.Run(time.Minute, func() bool {
		if s.Now().Sub(start) > 2*time.Second {
			queue = append(queue, time.Duration(float64(s.A.Link.Backlog(s.Now()))*8/rate*float64(time.Second)))
		}
		return s.pumped()
	}))
	took := s.Now().Sub(start).Seconds()
	used := float64(s.A.Link.Stats().CarriedBytes) * 8 / rate / took
	median, most := percentile(queue, 0.5), percentile(queue, 0.95)
	t.Logf("%.1f s, the path is used to %.1f %%, queue %v, 95 %% below %v, play's p99 %v", took, 100*used, median, most, percentile(p.took, 0.99))
	require.Greater(t, used, 0.97)
	require.Less(t, median, 21*time.Millisecond)
	require.Less(t, most, 28*time.Millisecond)
	require.Less(t, percentile(p.took, 0.99), 65*time.Millisecond)
}

// TestBulkOverALongPathWithLoss: random loss must not close the window.
func TestBulkOverALongPathWithLoss(t *testing.T) {
	path := netsim.Config{Delay: 100 * time.Millisecond, Rate: 20e6, Loss: 0.1, Seed: testkit.Seed(t)}
	s := newSim(t, path, netsim.PairConfig{}, bunch.Config{ReceiveLimit: 4 << 20, ReliableBuffer: 2048})
	s.pump(0, 32<<10, 400)
	start := s.Now()
	require.NoError(t, s.Run(2*time.Minute, s.pumped))
	took := s.Now().Sub(start)
	t.Logf("%v, ideal %.1f s", took, 400*32768*8/20e6/0.9)
	require.Less(t, took, 20*time.Second)
}

func TestDarkPathStartsNoStorm(t *testing.T) {
	path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 10e6}
	s := newSim(t, path, netsim.PairConfig{Window: 100_000}, bunch.Config{ReceiveLimit: 4 << 20})
	s.pump(0, 32<<10, 100)
	require.NoError(t, s.RunFor(time.Second))
	s.Dark(5 * time.Second)
	require.NoError(t, s.RunFor(500*time.Millisecond))
	before := s.A.Sent
	require.NoError(t, s.RunFor(4500*time.Millisecond))
	require.Less(t, s.A.Sent-before, uint64(20), "packets into the dark")
	got := s.pumps[0].got
	require.NoError(t, s.RunFor(1500*time.Millisecond))
	require.Greater(t, s.pumps[0].got, got, "bulk goes on within a second and a half")
	require.NoError(t, s.Run(10*time.Second, s.pumped))
	s.drain()
	resent := s.conns[0].Stats().BunchesResent
	require.Less(t, resent, uint64(400), "about what was in flight when it became dark")
}

func TestPathThatShrinks(t *testing.T) {
	path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 10e6, MTU: 1404}
	s := newSim(t, path, netsim.PairConfig{Window: 100_000}, bunch.Config{ReceiveLimit: 4 << 20})
	s.pump(0, 32<<10, 100)
	require.NoError(t, s.RunFor(time.Second))
	s.SetMTU(1163)
	shrunk := s.Now()
	require.NoError(t, s.Run(10*time.Second, s.conns[0].BlackHole))
	require.Less(t, s.Now().Sub(shrunk), 3*time.Second)
	s.A.Max, s.B.Max = 1163, 1163
	require.NoError(t, s.Run(10*time.Second, s.pumped))
	s.drain()
}

func TestThirtyHertzBothWaysSendsNoAckOnlyPackets(t *testing.T) {
	s := newSim(t, netsim.Config{Delay: 25 * time.Millisecond}, netsim.PairConfig{}, bunch.Config{})
	s.play(0, bunch.Reliable)
	s.play(1, bunch.UnreliableSequenced)
	require.NoError(t, s.RunFor(time.Minute))
	for i, c := range s.conns {
		stats := c.Stats()
		require.Zero(t, stats.AcksOnlySent, "end %d", i)
		require.Zero(t, stats.BunchesResent)
		require.InDelta(t, 1800, stats.PacketsSent, 10, "a limit for each 64 KiB that were fetched")
	}
}

func TestOneWayPlayIsAcknowledgedSparingly(t *testing.T) {
	s := newSim(t, netsim.Config{Delay: 25 * time.Millisecond}, netsim.PairConfig{}, bunch.Config{})
	s.pump(0, 32<<10, 200)
	require.NoError(t, s.Run(time.Minute, s.pumped))
	sent, acks := s.conns[0].Stats().PacketsSent, s.conns[1].Stats().PacketsSent
	t.Logf("%d packets, %d acks", sent, acks)
	require.Less(t, acks, sent/7)
}

func TestSidesFallSilent(t *testing.T) {
	s := newSim(t, netsim.Config{Delay: 25 * time.Millisecond}, netsim.PairConfig{}, bunch.Config{})
	s.pump(0, 32<<10, 30)
	p := s.play(1, bunch.Unreliable)
	p.until = s.Now().Add(time.Second)
	require.NoError(t, s.Run(time.Minute, s.pumped))
	require.NoError(t, s.RunFor(2*time.Second))
	sent := s.A.Sent + s.B.Sent
	require.NoError(t, s.RunFor(10*time.Minute))
	require.Equal(t, sent, s.A.Sent+s.B.Sent, "packets without a reason")
	for _, c := range s.conns {
		_, ok := c.NextTimeout()
		require.False(t, ok)
	}
}

// TestStoppedReceiverStopsItsPeer: a receiver whose owner takes no messages for two minutes
// makes the sender wait.
func TestStoppedReceiverStopsItsPeer(t *testing.T) {
	s := newSim(t, netsim.Config{Delay: 25 * time.Millisecond, Rate: 50e6}, netsim.PairConfig{}, bunch.Config{ReliableBuffer: 1024})
	p := s.pump(0, 32<<10, 100)
	s.stop = true
	require.NoError(t, s.RunFor(10*time.Second))
	stats := s.conns[0].Stats()
	require.Less(t, stats.BytesSent, uint64(300<<10), "what the receiver allows, and headers")
	require.NoError(t, s.RunFor(2*time.Minute))
	require.Less(t, s.conns[0].Stats().PacketsSent-stats.PacketsSent, uint64(2*130), "one probe a second, and its acks")
	require.Zero(t, s.conns[0].Stats().BunchesResent)
	s.stop = false
	require.NoError(t, s.Run(10*time.Second, s.pumped))
	require.Equal(t, p.total, p.got)
	s.drain()
}
