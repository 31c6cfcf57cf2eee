package sealed

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
)

// bothDark also stops what is received over the other carrier; then a session never becomes silent.
func bothDark(c *SessionConfig) { c.Other = func() uint64 { return 7 } }

// TestBulkGoesOnAfterALongDark: a path that was dark for longer than the
// controller hopes, with the end of a transfer in flight, carries on when it
// carries a probe again, which is none of the controller's packets.
func TestBulkGoesOnAfterALongDark(t *testing.T) {
	a, b := newPieces(1000, 10, 0), newPieces(1000, 0, 10)
	client, server := ends(t, a, b, bothDark)
	a.hold = true
	client.Start(netsim.Epoch, ID{1})
	server.Start(netsim.Epoch, ID{2})
	path := netsim.Config{Delay: 25 * ms, Rate: 10e6}
	pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: path, BtoA: path, Max: SafePacket,
		Tick: time.Second / 30, OnTick: func(time.Time) { client.Wake() }})
	require.NoError(t, pair.RunFor(2*time.Second))
	require.Equal(t, Open, client.State())

	pair.Dark(15 * time.Second)
	a.hold = false
	client.Wake()
	require.NoError(t, pair.RunFor(15*time.Second))
	require.Equal(t, Open, client.State())
	require.Equal(t, 10, a.next, "all have left")
	require.NoError(t, pair.RunFor(3*time.Second))
	require.True(t, a.delivered(), "%d of 10", a.ackedN)
}

// TestRandomDarkness: however long, and in whichever direction, the path was
// interrupted, a carrier that still exists delivers everything in the end.
func TestRandomDarkness(t *testing.T) {
	seed := testkit.Seed(t)
	for round := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, round))
		up, down := 1+random.IntN(400), 1+random.IntN(400)
		a, b := newPieces(1000, up, down), newPieces(1000, down, up)
		client, server := ends(t, a, b, bothDark)
		client.Start(netsim.Epoch, ID{1})
		server.Start(netsim.Epoch, ID{2})
		path := netsim.Config{Delay: time.Duration(1+random.IntN(100)) * ms, Rate: int64(1e5 + random.IntN(2e7)),
			Loss: []float64{0, 0.05, 0.3}[random.IntN(3)], Jitter: time.Duration(random.IntN(20)) * ms, Seed: seed + round}
		pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: path, BtoA: path, Max: SafePacket,
			Tick: time.Second / 30, OnTick: func(time.Time) { client.Wake(); server.Wake() }})
		require.NoError(t, pair.RunFor(2*time.Second))
		if client.State() != Open || server.State() != Open {
			continue // one that was never open has no patience
		}
		for range random.IntN(4) {
			require.NoError(t, pair.RunFor(time.Duration(random.IntN(2000))*ms))
			if random.IntN(3) == 0 {
				client.Moved(pair.Now())
			}
			until := pair.Now().Add(time.Duration(random.IntN(27_000)) * ms)
			way := random.IntN(3)
			if way != 0 {
				pair.A.Link.Dark(pair.Now(), until)
			}
			if way != 1 {
				pair.B.Link.Dark(pair.Now(), until)
			}
			require.NoError(t, pair.RunFor(until.Sub(pair.Now())))
		}
		require.NoError(t, pair.Run(10*time.Minute, func() bool { return a.delivered() && b.delivered() }),
			"round %d: %d of %d and %d of %d; %v, %v", round, a.ackedN, up, b.ackedN, down, client.control.State(), server.control.State())
	}
}

// TestAckThatWasDarkForLongIsNoRoundTrip: packets that arrived before an outage are
// acked after it, together with the probe that ended it. If that time counted as a
// round trip, probes, and the pace of the first packets, would wait for many seconds.
func TestAckThatWasDarkForLongIsNoRoundTrip(t *testing.T) {
	s := newStep(t, 6, bothDark).open()
	s.up.total = 3
	for range 10 {
		s.exchange(25 * ms)
	}
	require.Equal(t, 3, s.up.ackedN)
	require.Less(t, s.a.pto(), 300*ms)

	t.Log("# three packets arrive, and nothing comes back for 8 s")
	s.up.total = 6
	s.a.Wake()
	packets := s.collect(3)
	s.now = s.now.Add(25 * ms)
	s.deliver(s.b, packets...)
	for end := s.now.Add(8 * time.Second); s.now.Before(end); s.now = s.now.Add(25 * ms) {
		s.build(s.a)
		s.build(s.b)
	}
	for s.up.ackedN < 6 {
		s.exchange(25 * ms)
	}
	require.Less(t, s.a.pto(), 300*ms)
}
