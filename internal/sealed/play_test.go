package sealed

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
)

// ticks is a source of play: a message of 100 bytes at each tick, which is sent
// once, beside pieces of bulk.
type ticks struct {
	*pieces
	each   time.Duration
	next   time.Time
	due    []time.Time
	number uint64
	least  bool // messages of play are as short as can be, not 100 bytes long

	arrived, gone int
	took          []time.Duration // of the peer's messages
}

func newTicks(each time.Duration, bulk, want int) *ticks {
	return &ticks{pieces: newPieces(1000, bulk, want), each: each, next: netsim.Epoch.Add(each)}
}

const playToken = 1 << 32

func (p *ticks) AppendPayload(now time.Time, buf []byte, room Room) ([]byte, uint64, Content, bool) {
	if len(p.due) == 0 {
		return p.pieces.AppendPayload(now, buf, room)
	}
	made := p.due[0]
	p.due = p.due[1:]
	p.number++
	b := binary.BigEndian.AppendUint32(buf, 1<<31)
	b = binary.BigEndian.AppendUint64(b, uint64(made.Sub(netsim.Epoch)))
	if !p.least {
		b = append(b, make([]byte, 88)...)
	}
	return b, playToken + p.number, Content{Play: true}, true
}

func (p *ticks) Acked(now time.Time, token uint64) {
	if token >= playToken {
		p.arrived++
		return
	}
	p.pieces.Acked(now, token)
}

func (p *ticks) Lost(now time.Time, token uint64) {
	if token >= playToken {
		p.gone++
		return
	}
	p.pieces.Lost(now, token)
}

func (p *ticks) Receive(now time.Time, b []byte) {
	if binary.BigEndian.Uint32(b) == 1<<31 {
		p.took = append(p.took, now.Sub(netsim.Epoch)-time.Duration(binary.BigEndian.Uint64(b[4:])))
		return
	}
	p.pieces.Receive(now, b)
}

func (p *ticks) Moved(time.Time) {}

func (p *ticks) Advance(now time.Time) {
	for ; !p.next.After(now); p.next = p.next.Add(p.each) {
		p.due = append(p.due, p.next)
	}
}

func (p *ticks) NextTimeout() (time.Time, bool) { return p.next, true }

// TestFeedbackRidesOnPlay: at 30 Hz in both directions one packet for each
// message is enough, whichever side sends first.
func TestFeedbackRidesOnPlay(t *testing.T) {
	for _, phase := range []time.Duration{0, 8 * ms, 16 * ms, 30 * ms} {
		a, b := newTicks(time.Second/30, 0, 0), newTicks(time.Second/30, 0, 0)
		b.next = b.next.Add(phase)
		client, server := ends(t, a, b, func(c *SessionConfig) { c.PlayDelay = 40 * ms; c.NoTrain = true })
		client.Start(netsim.Epoch, ID{1})
		server.Start(netsim.Epoch, ID{2})
		path := netsim.Config{Delay: 25 * ms}
		pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: path, BtoA: path, Max: SafePacket})
		require.NoError(t, pair.RunFor(30*time.Second))
		for _, s := range []*Session{client, server} {
			require.Less(t, float64(s.Stats().Sent), 1.05*900, "%+v", s.Stats())
			_, smoothed, least := s.Controller().RTT()
			require.InDelta(t, 50, float64(least)/1e6, 7, "the wait of acks is no round trip")
			require.InDelta(t, 50, float64(smoothed)/1e6, 8)
		}
	}
}

// TestPlayPassesBulk: on a full path play waits for no more than the queue that bulk keeps.
func TestPlayPassesBulk(t *testing.T) {
	a, b := newTicks(time.Second/30, 10_000, 0), newTicks(time.Second/30, 0, 10_000)
	client, server := ends(t, a, b, func(c *SessionConfig) { c.PlayDelay = 25 * ms })
	client.Start(netsim.Epoch, ID{1})
	server.Start(netsim.Epoch, ID{2})
	path := netsim.Config{Delay: 25 * ms, Rate: 10e6, Loss: 0.01, Seed: testkit.Seed(t)}
	pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: path, BtoA: path, Max: SafePacket})
	require.NoError(t, pair.RunFor(8*time.Second))
	late := 0
	for _, d := range b.took {
		if d > 60*ms {
			late++
		}
	}
	require.Greater(t, len(b.took), 220)
	require.Less(t, late, 24, "of %d messages", len(b.took))
	require.Greater(t, len(b.got), 6_000, "bulk goes on beside play")
}

// TestPlayIsBounded: what play has in flight is no more than the path holds,
// whatever its source has.
func TestPlayIsBounded(t *testing.T) {
	a, b := newTicks(10*time.Microsecond, 0, 0), newTicks(time.Hour, 0, 0)
	client, server := ends(t, a, b, func(c *SessionConfig) { c.PlayDelay = 25 * ms; c.NoTrain = true })
	client.Start(netsim.Epoch, ID{1})
	server.Start(netsim.Epoch, ID{2})
	path := netsim.Config{Delay: 25 * ms, Rate: 1e6, Queue: 100 << 10}
	pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: path, BtoA: path, Max: SafePacket})
	require.NoError(t, pair.RunFor(5*time.Second))
	require.Less(t, client.InFlight(), 20<<10, "the path holds 6 KiB, its queue 100")
	require.Less(t, float64(a.gone), 0.02*float64(a.number), "of its own doing")
	require.Greater(t, len(b.took), 3000, "the path stays full")
}

// TestFloodOfPlayOnAShortPath: a flood of play is no slower than the path for
// want of feedback, which play alone lets wait. The game may have been quiet
// before, so that next to nothing is known of the path.
func TestFloodOfPlayOnAShortPath(t *testing.T) {
	for _, train := range []bool{true, false} {
		for _, delay := range []time.Duration{50 * time.Microsecond, ms, 10 * ms} {
			a, b := newTicks(time.Second/30, 0, 0), newTicks(time.Hour, 0, 0)
			client, server := ends(t, a, b, func(c *SessionConfig) { c.PlayDelay = 40 * ms; c.NoTrain = !train })
			client.Start(netsim.Epoch, ID{1})
			server.Start(netsim.Epoch, ID{2})
			path := netsim.Config{Delay: delay, Rate: 1e9, Seed: testkit.Seed(t)}
			pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: path, BtoA: path, Max: SafePacket})
			require.NoError(t, pair.RunFor(5*time.Second))
			a.each = 20 * time.Microsecond // 50,000 a second, 17,000 packets, 60 Mbit/s
			require.NoError(t, pair.RunFor(time.Second))
			before := len(b.took)
			require.NoError(t, pair.RunFor(time.Second))
			require.Greater(t, len(b.took)-before, 40_000, "messages in the second second, at a delay of %v, train %v", delay, train)
		}
	}
}

// TestFloodOfPlayAsksSooner: once play has filled its bound, packets ask for
// feedback from half of it on, until the source has none.
func TestFloodOfPlayAsksSooner(t *testing.T) {
	s := newStep(t, 0, nil).open()
	leave := func(bytes int) {
		s.a.records.playInFlight = bytes
		rec := record{fate: inFlight, paced: true, payloads: 1}
		s.a.packetSent(&draft{now: s.a.now, number: s.a.records.Next, bytes: make([]byte, 100), rec: rec})
		s.a.records.playInFlight = bytes
	}
	most := s.a.playBound()
	leave(most * 3 / 5)
	require.False(t, s.a.wantsAckSoon())
	leave(most)
	leave(most * 3 / 5)
	require.True(t, s.a.wantsAckSoon())
	leave(most / 10)
	require.False(t, s.a.wantsAckSoon())
	leave(most * 3 / 5)
	require.True(t, s.a.wantsAckSoon())

	_, _, ok := s.a.build(s.a.now, forPlay, nil, SafePacket)
	require.False(t, ok)
	require.False(t, s.a.wantsAckSoon(), "%d of %d", s.a.records.playInFlight, most)
}

// TestPlayKeepsTheRate: 20 s of play alone, on a path that loses packets in
// jitter, are no reason to send bulk slower.
func TestPlayKeepsTheRate(t *testing.T) {
	var parts []float64
	for range 9 {
		parts = append(parts, afterPlay(t))
	}
	slices.Sort(parts)
	require.Greater(t, parts[len(parts)/2], 0.7, "parts of the link: %.2f", parts)
}

// afterPlay returns the part of the link that bulk gets if it is sent after bulk and much play.
func afterPlay(t *testing.T) float64 {
	const first, second = 1_500, 2_000
	a, b := newTicks(time.Second/30, first+second, 0), newTicks(time.Second/30, 0, first+second)
	a.total = first
	client, server := ends(t, a, b, func(c *SessionConfig) { c.PlayDelay = 40 * ms })
	client.Start(netsim.Epoch, ID{1})
	server.Start(netsim.Epoch, ID{2})
	path := netsim.Config{Delay: 25 * ms, Rate: 10e6, Loss: 0.05, Jitter: 10 * ms, Seed: testkit.Seed(t)}
	pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: path, BtoA: path, Max: SafePacket})
	require.NoError(t, pair.Run(time.Minute, func() bool { return len(b.got) == first }))
	require.NoError(t, pair.RunFor(20*time.Second))
	begun := pair.Now()
	a.total = first + second
	require.NoError(t, pair.Run(time.Minute, func() bool { return len(b.got) == first+second }))
	ideal := time.Duration(float64(second*1000*8) / 10e6 * 1e9)
	return float64(ideal) / float64(pair.Now().Sub(begun))
}

// TestTrainAfterPlay: a train that was lost as a whole is sent again, and its
// rate is believed although play has shown a rate, its own.
func TestTrainAfterPlay(t *testing.T) {
	a, b := newTicks(time.Second/30, 0, 0), newTicks(time.Second/30, 0, 0)
	client, server := ends(t, a, b, func(c *SessionConfig) { c.PlayDelay = 40 * ms })
	client.Start(netsim.Epoch, ID{1})
	server.Start(netsim.Epoch, ID{2})
	path := netsim.Config{Delay: 25 * ms, Rate: 100e6}
	there := path
	there.Lose = func(n uint64, _ []byte) bool { return 0 < n && n <= trainPackets }
	pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: there, BtoA: path, Max: SafePacket})
	require.NoError(t, pair.RunFor(3*time.Second))
	require.Positive(t, a.arrived)
	require.InDelta(t, 100e6/8, client.Controller().Estimate(), 25e6/8)
}
