package bunch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/netsim"
)

// TestStandstillIsNoRoundTrip: acks are held up on the path for a while, as when a phone
// changes its cell, and then all arrive. If that time counted as a round trip, a message that
// is lost afterwards would be sent again only after as long a time.
func TestStandstillIsNoRoundTrip(t *testing.T) {
	for _, hold := range []time.Duration{time.Second, 5 * time.Second, 20 * time.Second} {
		path := netsim.Config{Delay: 25 * time.Millisecond, Rate: 10e6}
		s := newSim(t, path, netsim.PairConfig{Window: 1 << 20}, bunch.Config{IdleTimeout: time.Minute})
		channel, err := s.conns[0].Open(bunch.High)
		require.NoError(t, err)
		send := func() { require.NoError(t, s.conns[0].Send(channel, bunch.Reliable, make([]byte, 50))) }
		for range 10 {
			send()
			require.NoError(t, s.RunFor(200*time.Millisecond))
		}

		stands := path
		stands.Clump = hold
		until := s.Now().Truncate(hold).Add(hold)
		s.B.Link.SetConfig(stands)
		send()
		require.NoError(t, s.RunFor(until.Sub(s.Now())-40*time.Millisecond))
		s.B.Link.SetConfig(path)
		require.NoError(t, s.RunFor(400*time.Millisecond))

		s.Dark(100 * time.Millisecond)
		send()
		begin := s.Now()
		require.NoError(t, s.Run(time.Minute, func() bool {
			waits, _ := s.conns[0].Reliable(channel)
			return waits == 0
		}))
		require.Less(t, s.Now().Sub(begin), time.Second, "%v", hold)
	}
}
