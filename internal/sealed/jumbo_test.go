package sealed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
)

// jumboBed moves pieces over a path, and notes the sizes of the packets that carry them.
type jumboBed struct {
	*netsim.Pair
	up, down *pieces
	a        *Session
	largest  int
	jumbos   int // packets that are larger than FullPacket
}

func newJumboBed(t *testing.T, link netsim.Config, mebibytes int) *jumboBed {
	n := mebibytes << 20 / 1000
	d := &jumboBed{up: newPieces(1000, n, 0), down: newPieces(1000, 0, n)}
	link.Seed = testkit.Seed(t)
	d.Pair, d.a, _ = connect(t, d.up, d.down, netsim.PairConfig{AtoB: link, BtoA: link, Max: JumboPacket, OnPacket: func(_ *netsim.Side, p []byte, _ netsim.Fate) {
		d.largest = max(d.largest, len(p))
		if len(p) > FullPacket {
			d.jumbos++
		}
	}})
	return d
}

// whole runs until all pieces have arrived, and returns how long that took.
func (d *jumboBed) whole(t *testing.T) time.Duration {
	require.NoError(t, d.Run(10*time.Minute, d.up.delivered))
	require.Empty(t, d.up.faults)
	require.Zero(t, d.down.bad)
	return d.down.doneAt.Sub(netsim.Epoch)
}

// TestJumboPackets carry bulk where a path is fast and takes them.
func TestJumboPackets(t *testing.T) {
	const fast = 1e9
	for _, row := range []struct {
		name   string
		link   netsim.Config
		jumbos [2]int // least and most
	}{
		{"fast, large frames", netsim.Config{Delay: 2 * ms, Rate: fast, MTU: JumboPacket}, [2]int{3000, 4500}},
		{"fast, large frames, loss", netsim.Config{Delay: 2 * ms, Rate: fast, MTU: JumboPacket, Loss: 0.01}, [2]int{3000, 5000}},
		{"fast, usual frames", netsim.Config{Delay: 2 * ms, Rate: fast, MTU: FullPacket}, [2]int{maxJumboProbes, maxJumboProbes}},
		{"fast, small frames", netsim.Config{Delay: 2 * ms, Rate: fast, MTU: SafePacket}, [2]int{maxJumboProbes, maxJumboProbes}},
		{"slow, large frames", netsim.Config{Delay: 2 * ms, Rate: 10e6, MTU: JumboPacket}, [2]int{0, 0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := newJumboBed(t, row.link, 32)
			took := d.whole(t)
			t.Logf("%v, %d jumbo packets, largest %d; %+v", took, d.jumbos, d.largest, d.a.Stats())
			require.GreaterOrEqual(t, d.jumbos, row.jumbos[0])
			require.LessOrEqual(t, d.jumbos, row.jumbos[1])
			if most := d.a.limit(forPayload, FullPacket, true); row.jumbos[0] > maxJumboProbes {
				require.Equal(t, JumboPacket, most)
			} else {
				require.LessOrEqual(t, most, FullPacket)
			}
			require.LessOrEqual(t, d.a.limit(forPayload, FullPacket, false), FullPacket)
		})
	}
}

// TestJumboProbesCostNothing: a path that takes none is as fast as if nobody had tried.
func TestJumboProbesCostNothing(t *testing.T) {
	link := netsim.Config{Delay: 5 * ms, Rate: 500e6, MTU: FullPacket}
	tried := newJumboBed(t, link, 64)
	n := 64 << 20 / 1000
	up, down := newPieces(1000, n, 0), newPieces(1000, 0, n)
	pair, _, _ := connect(t, up, down, netsim.PairConfig{AtoB: link, BtoA: link, Max: FullPacket})
	require.NoError(t, pair.Run(time.Minute, up.delivered))
	require.InEpsilon(t, down.doneAt.Sub(netsim.Epoch).Seconds(), tried.whole(t).Seconds(), 0.03)
	require.Equal(t, maxJumboProbes, tried.jumbos)
}

// TestJumboPathShrinks in a transfer: the packets become as large as QUIC's at
// once, not as small as on a path that takes nothing else.
func TestJumboPathShrinks(t *testing.T) {
	d := newJumboBed(t, netsim.Config{Delay: 2 * ms, Rate: 1e9, MTU: JumboPacket}, 256)
	require.NoError(t, d.RunFor(500*ms))
	require.Equal(t, JumboPacket, d.largest)
	d.SetMTU(FullPacket)
	require.NoError(t, d.RunFor(100*ms))
	before, jumbos := d.up.ackedN, d.jumbos
	d.largest = 0
	require.NoError(t, d.RunFor(500*ms))
	require.Greater(t, float64(d.up.ackedN-before)*1000, 0.85*0.5*1e9/8)
	require.LessOrEqual(t, d.jumbos-jumbos, maxJumboProbes)
	d.whole(t)
}

// playOnly always has a message of play.
type playOnly struct{ sinkOnly }

func (playOnly) AppendPayload(_ time.Time, buf []byte, room Room) ([]byte, uint64, Content, bool) {
	return append(buf, make([]byte, min(400, room.Max))...), playToken, Content{Play: true}, true
}

// TestPlayFillsNoJumboPacket: play alone makes no jumbo packet, even if the pacer would allow bulk.
func TestPlayFillsNoJumboPacket(t *testing.T) {
	s := newStep(t, 0, nil).open()
	s.a.source = playOnly{}
	s.a.mtu.jumbo.state = jumboProven
	s.a.mtu.jumbo.checkSpeed(1e9, 1<<20, 0)
	for range 4 {
		s.a.Wake()
		p, _, ok := s.a.Build(s.now, make([]byte, 0, JumboPacket), SafePacket, true)
		require.True(t, ok)
		require.Greater(t, len(p), 800)
		require.LessOrEqual(t, len(p), FullPacket)
	}
}

// TestJumboPathFlaps in a transfer, between two routers for example: that costs
// a black hole, and not one at each change.
func TestJumboPathFlaps(t *testing.T) {
	took := func(most int) time.Duration {
		link := netsim.Config{Delay: 4 * ms, Jitter: 3 * ms, Rate: 200e6, MTU: JumboPacket, Seed: testkit.Seed(t)}
		up, down := newPieces(1000, 20_000, 0), newPieces(1000, 0, 20_000)
		pair, _, _ := connect(t, up, down, netsim.PairConfig{AtoB: link, BtoA: link, Max: most})
		for n := 0; !up.delivered() && n < 3_000; n++ {
			pair.SetMTU([...]int{JumboPacket, FullPacket}[n%2])
			_ = pair.Run(20*ms, up.delivered)
		}
		require.True(t, up.delivered())
		return down.doneAt.Sub(netsim.Epoch)
	}
	without, with := took(FullPacket), took(JumboPacket)
	t.Logf("%v without jumbo packets, %v with them", without, with)
	require.Less(t, with.Seconds(), 5*without.Seconds(), "usually both are as fast; it was 16 times as long")
}

// TestJumboPathIsLeft: the path changes in a transfer. Acks that still arrive
// for packets on the old path do not show that the new one takes such packets.
func TestJumboPathIsLeft(t *testing.T) {
	d := newJumboBed(t, netsim.Config{Delay: 10 * ms, Rate: 500e6, MTU: JumboPacket}, 64)
	require.NoError(t, d.RunFor(500*ms))
	require.Equal(t, JumboPacket, d.largest)
	d.a.Moved(d.Now())
	d.SetMTU(FullPacket)
	before := d.jumbos
	d.whole(t)
	require.LessOrEqual(t, d.jumbos-before, maxJumboProbes)
}

// TestPlayIsNeverJumbo: packets behind one of play wait no longer than before.
func TestPlayIsNeverJumbo(t *testing.T) {
	var j jumboProber
	s := &Session{}
	j.state = jumboProven
	j.checkSpeed(1e9, 1<<20, 0)
	s.mtu.jumbo = j
	require.Equal(t, JumboPacket, s.limit(forPayload, FullPacket, true))
	require.Equal(t, FullPacket, s.limit(forPayload, FullPacket, false), "the socket sends none")
	require.Equal(t, FullPacket, s.limit(forPlay, FullPacket, true))
	require.Equal(t, FullPacket, s.limit(forReport, FullPacket, true))
	s.mtu.jumbo.checkSpeed(1.7e6, 1<<20, jumboBurst-1)
	require.Equal(t, FullPacket, s.limit(forPayload, FullPacket, true), "the path is slow")
	s.mtu.jumbo.checkSpeed(1.7e6, 1<<20, jumboBurst)
	require.Equal(t, JumboPacket, s.limit(forPayload, FullPacket, true), "the path is fast, and many share it")
	s.mtu.jumbo.checkSpeed(4e5, 1<<20, jumboBurst)
	require.Equal(t, FullPacket, s.limit(forPayload, FullPacket, true), "a shaper may hold it")
	s.mtu.jumbo.checkSpeed(1e9, 3*JumboPacket, jumboBurst)
	require.Equal(t, FullPacket, s.limit(forPayload, FullPacket, true), "the window is small")
}

// TestPlayInAPacketWithBulk: such a packet is as large as one without jumbo packets.
func TestPlayInAPacketWithBulk(t *testing.T) {
	a, b := newTicks(time.Hour, 20_000, 0), newTicks(time.Hour, 0, 20_000)
	client, server := ends(t, a, b, nil)
	client.Start(netsim.Epoch, ID{1})
	server.Start(netsim.Epoch, ID{2})
	path := netsim.Config{Delay: 2 * ms, Rate: 1e9, MTU: JumboPacket, Seed: testkit.Seed(t)}
	due, largest := 0, 0
	pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: path, BtoA: path, Max: JumboPacket,
		OnStep: func(now time.Time) {
			if client.mtu.takesJumbo() && client.MaySend(now) {
				a.due = append(a.due, now)
			}
			due = len(a.due)
		},
		OnPacket: func(_ *netsim.Side, p []byte, _ netsim.Fate) {
			if len(a.due) < due {
				due, largest = len(a.due), max(largest, len(p))
			}
		},
	})
	require.NoError(t, pair.Run(time.Minute, a.delivered))
	require.Greater(t, len(b.took), 100)
	require.LessOrEqual(t, largest, FullPacket)
	require.Greater(t, largest, 1000, "bulk fills it")
}

// wide is a source of play whose payloads have a size.
type wide struct {
	sinkOnly
	size int
}

func (s wide) AppendPayload(_ time.Time, b []byte, room Room) ([]byte, uint64, Content, bool) {
	if room.Max < s.size {
		return b, 0, Content{}, false
	}
	return append(b, make([]byte, s.size)...), 0, Content{Play: true}, true
}

// TestFeedbackMakesPlayNoJumboPacket: feedback gets the room that play has left
// in an ordinary packet.
func TestFeedbackMakesPlayNoJumboPacket(t *testing.T) {
	s := newStep(t, 0, nil).open()
	s.a.source = wide{size: 1300}
	for n := s.a.opener.window.Next + 1; n < 400; n += 2 {
		s.a.opener.window.Mark(n)
		s.a.reporter.note(s.a.now, s.a.now, n, askSoon)
	}
	p, _, ok := s.a.build(s.a.tick(s.now.Add(time.Second)), forPayload, nil, JumboPacket)
	require.True(t, ok)
	require.Greater(t, len(p), 1300+Overhead+dataHeader+minReport)
	require.LessOrEqual(t, len(p), FullPacket)
}

// TestJumboSearchesAgain only long after a search in vain, and at once after a
// black hole, which may have been an outage.
func TestJumboSearchesAgain(t *testing.T) {
	var j jumboProber
	j.checkSpeed(1e9, 1<<20, 0)
	large, small := &record{size: JumboPacket + wireOverhead}, &record{size: 100}
	n := uint64(0)
	for range maxJumboProbes {
		require.True(t, j.probeDue(time.Second))
		j.probeSent(n)
		require.False(t, j.probeDue(time.Second), "one at a time")
		j.lost(time.Second, n)
		n++
	}
	require.False(t, j.probeDue(time.Second+jumboSearchWait-1))
	require.True(t, j.probeDue(time.Second+jumboSearchWait))
	j.probeSent(n)
	j.acked(n, large)
	require.True(t, j.usable())
	for range 3 {
		n++
		j.lost(time.Second, n)
	}
	j.checkBlackHole(time.Second, n+1)
	require.True(t, j.usable(), "no smaller one came meanwhile")
	j.acked(n+1, small)
	j.checkBlackHole(time.Second, n+2)
	require.False(t, j.usable())
	j.acked(n+1, large)
	require.False(t, j.usable(), "it left before the black hole was found")
	require.True(t, j.probeDue(time.Second+jumboSearchWait))

	t.Log("# each further black hole holds the next search back for longer")
	for wait := minHoleWait; wait < 8*minHoleWait; wait *= 2 {
		n += 10
		j.acked(n, large)
		for range 3 {
			n++
			j.lost(time.Minute, n)
		}
		n++
		j.acked(n, small)
		j.checkBlackHole(time.Minute, n+1)
		require.False(t, j.probeDue(time.Minute+wait-1))
		require.True(t, j.probeDue(time.Minute+wait))
	}
}

// TestLateAckDuringAJumboProbe: a probe that was declared lost is acked while the next one is in
// flight. If that one is lost, it's still a probe, not a data packet.
func TestLateAckDuringAJumboProbe(t *testing.T) {
	var j jumboProber
	j.checkSpeed(1e9, 1<<20, 0)
	j.probeSent(1)
	j.lost(time.Second, 1)
	j.probeSent(2)
	j.acked(1, &record{size: JumboPacket + wireOverhead})
	require.True(t, j.usable())
	j.lost(time.Second, 2)
	require.Zero(t, j.lossRate)
	require.Zero(t, j.lostProbes, "the path does carry jumbo packets")

	j.lost(time.Second, 3)
	j.lost(time.Second, 4)
	j.acked(5, &record{size: 100})
	j.checkBlackHole(time.Second, 6)
	require.True(t, j.usable(), "only two data packets were lost")
}

// TestJumboIsOfOnePath: a jumbo packet that was sent before the path changed,
// and is acked after that, shows nothing about the new one.
func TestJumboIsOfOnePath(t *testing.T) {
	s := newStep(t, 0, nil).open()
	before := s.a.records.Next
	s.a.Moved(s.now)
	j := &s.a.mtu.jumbo
	j.checkSpeed(1e9, 1<<20, 0)
	s.a.mtu.acked(before-1, &record{size: JumboPacket + wireOverhead})
	require.False(t, j.usable())
	require.True(t, j.probeDue(0))
	j.probeSent(before)
	s.a.mtu.acked(before, &record{size: JumboPacket + wireOverhead})
	require.True(t, j.usable())
}

// TestPlayHasItsShareBesideJumboPackets: how much of it may be in flight, and
// when it asks for feedback, is counted in packets of its own size.
func TestPlayHasItsShareBesideJumboPackets(t *testing.T) {
	s := newStep(t, 0, nil).open().a
	s.lastSize = FullPacket + wireOverhead
	bound := s.playBound()
	s.records.playInFlight = bound - 2*s.lastSize - 1
	require.False(t, s.wantsAckSoon())

	s.mtu.jumbo.state = jumboProven
	s.mtu.jumbo.checkSpeed(1e9, 1<<20, 0)
	s.lastSize = JumboPacket + wireOverhead
	require.Equal(t, bound, s.playBound())
	require.False(t, s.wantsAckSoon())
}

// TestJumboPathGoesDark: after an interruption a transfer continues as soon as
// one without jumbo packets. Before, the pacer charged those sent during the
// interruption, one each probe timeout, at a rate of one small packet each probe
// timeout, and waited for that when the path worked again: for 3 s after 1 s.
func TestJumboPathGoesDark(t *testing.T) {
	took := func(most int, dark time.Duration) time.Duration {
		link := netsim.Config{Delay: 5 * ms, Rate: 200e6, MTU: JumboPacket, Seed: testkit.Seed(t)}
		up, down := newPieces(1400, 10_000, 0), newPieces(1400, 0, 10_000)
		pair, _, _ := connect(t, up, down, netsim.PairConfig{AtoB: link, BtoA: link, Max: most})
		require.NoError(t, pair.RunFor(300*ms))
		pair.Dark(dark)
		require.NoError(t, pair.Run(time.Minute, up.delivered))
		return down.doneAt.Sub(netsim.Epoch)
	}
	for _, dark := range []time.Duration{300 * ms, time.Second, 4 * time.Second} {
		without, with := took(FullPacket, dark), took(JumboPacket, dark)
		t.Logf("dark for %v: %v without jumbo packets, %v with them", dark, without, with)
		require.Less(t, with, without+200*ms)
	}
}

// TestJumboPathLosesThem: a path loses a third of the jumbo packets and no others. That costs
// little, because their use ends. With half as the bound it took up to 3.7 times as long.
//
// The race detector makes it ten times as slow, so it then runs once, with less to send.
func TestJumboPathLosesThem(t *testing.T) {
	rounds, count := 3, 20_000
	if testkit.Race {
		rounds, count = 1, 8_000
	}
	took := func(most int) time.Duration {
		link := netsim.Config{Delay: 10 * ms, Rate: 200e6, MTU: JumboPacket, LossMin: 2000, Loss: 0.33, Seed: testkit.Seed(t)}
		up, down := newPieces(1400, count, 0), newPieces(1400, 0, count)
		pair, _, _ := connect(t, up, down, netsim.PairConfig{AtoB: link, BtoA: link, Max: most})
		require.NoError(t, pair.Run(time.Minute, up.delivered))
		return down.doneAt.Sub(netsim.Epoch)
	}
	without := took(FullPacket)
	for range rounds {
		with := took(JumboPacket)
		t.Logf("%v without jumbo packets, %v with them", without, with)
		require.Less(t, with.Seconds(), 2*without.Seconds())
	}
}
