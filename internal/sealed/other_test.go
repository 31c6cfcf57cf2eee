package sealed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// TestSilenceBesideAnotherCarrier: a carrier whose packets no longer arrive counts as silent
// if the peer is heard over the other carrier, for play alone sooner than with bulk in flight.
// If it is not heard there, the path is interrupted, and the carrier does not count as silent.
func TestSilenceBesideAnotherCarrier(t *testing.T) {
	never, always := func(time.Duration) uint64 { return 7 }, func(d time.Duration) uint64 { return uint64(d / (10 * ms)) }
	for _, row := range []struct {
		name        string
		bulk        int
		came        func(time.Duration) uint64 // over the other carrier, nil = there is none
		least, most time.Duration              // until silence; 0 = never
	}{
		{"alone", 0, nil, time.Second, 1100 * ms},
		{"dark, play", 0, never, 0, 0},
		{"dark, bulk", 100_000, never, 0, 0},
		{"heard, play", 0, always, 300 * ms, 700 * ms},
		{"heard, bulk", 100_000, always, time.Second, 1100 * ms},
	} {
		t.Run(row.name, func(t *testing.T) {
			dark := false
			a, b := newTicks(time.Second/30, row.bulk, 0), newTicks(time.Second/30, 0, row.bulk)
			var pair *netsim.Pair
			client, server := ends(t, a, b, func(c *SessionConfig) {
				c.PlayDelay = 25 * ms
				if row.came != nil {
					c.Other = func() uint64 { return row.came(pair.Now().Sub(netsim.Epoch)) }
				}
			})
			client.Start(netsim.Epoch, ID{1})
			server.Start(netsim.Epoch, ID{2})
			path := netsim.Config{Delay: 25 * ms, Rate: 10e6, Lose: func(uint64, []byte) bool { return dark }}
			pair = netsim.NewPair(client, server, netsim.PairConfig{AtoB: path, BtoA: path, Max: SafePacket})
			require.NoError(t, pair.RunFor(2*time.Second))
			require.Equal(t, Open, client.State())

			dark = true
			begin := pair.Now()
			err := pair.Run(8*time.Second, func() bool { return client.State() != Open })
			if row.most == 0 {
				require.Error(t, err)
				require.Equal(t, Open, client.State(), "for 8 s")
			} else {
				took := pair.Now().Sub(begin)
				require.Equal(t, Silent, client.State())
				require.GreaterOrEqual(t, took, row.least-100*ms)
				require.LessOrEqual(t, took, row.most)
			}
			dark = false
			require.NoError(t, pair.RunFor(3*time.Second))
			require.Equal(t, Open, client.State())
			require.Equal(t, Open, server.State())
		})
	}
}

// TestIdleCarrierDoesNotWatch the other one: it waits for nothing.
func TestIdleCarrierDoesNotWatch(t *testing.T) {
	looks := 0
	s := newStep(t, 0, func(c *SessionConfig) { c.Other = func() uint64 { looks++; return 0 } }).open()
	s.send(3)
	for range 3 {
		s.exchange(30 * ms)
	}
	require.Zero(t, s.a.records.packetsInFlight)
	looks = 0
	s.now = s.now.Add(5 * time.Second)
	require.NoError(t, s.a.Advance(s.now))
	require.Zero(t, looks)
	at, ok := s.a.NextTimeout()
	require.True(t, ok)
	require.Equal(t, s.a.time(s.a.memory.lastTrim+trimInterval), at)
}
