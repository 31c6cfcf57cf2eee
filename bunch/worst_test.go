package bunch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
)

// TestWorstCase is that of the article on large blocks: 99 % of all packets are lost,
// and the others take 10 s and up to 3 s more, in either direction. Forty messages
// (ten under -short) arrive intact and in order all the same, after some days,
// because no probe is wasted: when only one in five had content it took four months.
func TestWorstCase(t *testing.T) {
	const forever = 100 * 365 * 24 * time.Hour
	messages := testkit.Brief(10, 40)
	path := netsim.Config{Delay: 10 * time.Second, Jitter: 3 * time.Second, Loss: 0.99, Seed: testkit.Seed(t)}
	conns := [2]*bunch.Conn{}
	for i := range conns {
		c, err := bunch.NewConn(netsim.Epoch, bunch.Config{Client: i == 0, IdleTimeout: forever})
		require.NoError(t, err)
		conns[i] = c
	}
	got := 0
	var arrived time.Time
	pair := netsim.NewPair(conns[0], conns[1], netsim.PairConfig{AtoB: path, BtoA: path, Max: 1404, OnStep: func(now time.Time) {
		for m, ok := conns[1].Next(); ok; m, ok = conns[1].Next() {
			require.Equal(t, content(1000, got), m.Payload)
			got++
			arrived = now
		}
	}})
	channel, err := conns[0].Open(bunch.Normal)
	require.NoError(t, err)
	for i := range messages {
		require.NoError(t, conns[0].Send(channel, bunch.Reliable, content(1000, i)))
	}
	require.NoError(t, pair.Run(forever, conns[0].Drained))
	require.Equal(t, messages, got)
	s := conns[0].Stats()
	t.Logf("arrived after %v, acknowledged after %v", arrived.Sub(netsim.Epoch), pair.Now().Sub(netsim.Epoch))
	t.Logf("%d packets, %d bunches sent again, %d probes", s.PacketsSent, s.BunchesResent, s.ProbesSent)
	require.GreaterOrEqual(t, 2*s.BunchesResent, s.ProbesSent, "of the two packets of a probe the last message fills one")
}
