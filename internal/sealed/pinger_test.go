package sealed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
)

// take reports whether a ping is due, and if so counts it as sent.
func (p *pinger) take(now time.Time, s *Session) bool {
	if !p.due(now, s) {
		return false
	}
	p.pinged(now, s)
	return true
}

// TestClientsPing: while there is traffic a client pings each second, which keeps QUIC at both
// ends awake. A server, which has no PingTime, pings only when it waits in vain for an ack.
func TestClientsPing(t *testing.T) {
	s := newStep(t, 20, nil).open()
	client, server := pinger{every: time.Second}, pinger{}
	count := func() (a, b int) {
		for end := s.now.Add(10 * time.Second); s.now.Before(end); {
			s.up.again, s.up.acked[5] = append(s.up.again, 5), false // there is always something to send
			s.a.Wake()
			s.exchange(10 * ms)
			if client.take(s.now, s.a) {
				a++
			}
			if server.take(s.now, s.b) {
				b++
			}
		}
		return a, b
	}
	count()
	a, b := count()
	require.Equal(t, []int{10, 0}, []int{a, b})

	t.Logf("# the server has sent something, and hears nothing any more")
	s.b.liveness.probesDue = 1
	require.Len(t, s.build(s.b), 1)
	s.now = s.now.Add(time.Second)
	require.True(t, server.due(s.now, s.b))
}

// TestPingsWhileQUICSearches: while bulk is in flight QUIC gets a ping each five round trips,
// at a server, too, until eight in a row have found no larger packets. Play alone needs none.
func TestPingsWhileQUICSearches(t *testing.T) {
	s := newStep(t, 20, nil).open()
	p := pinger{every: time.Second}
	size := SafePacket
	count := func(rounds int) (pings int) {
		for range rounds {
			s.up.again, s.up.acked[5] = append(s.up.again, 5), false // there is always something to send
			s.a.Wake()
			s.exchange(10 * ms)
			if p.searchDue(s.now, s.a) {
				p.noteSize(size)
				p.pinged(s.now, s.a)
				pings++
			}
		}
		return pings
	}
	require.InDelta(t, 4, count(4*2*searchTrips), 2, "each in five round trips of 20 ms")
	size++
	require.Equal(t, 1+searchPings, count(20*2*searchTrips))
	require.Zero(t, count(20*2*searchTrips))

	t.Logf("# another path, on which QUIC begins anew")
	p.moved()
	require.NotZero(t, count(2*2*searchTrips))

	t.Logf("# bulk travels in jumbo packets")
	p.moved()
	s.a.mtu.jumbo = jumboProber{state: jumboProven, fastEnough: true}
	require.False(t, p.searchDue(s.now.Add(time.Hour), s.a))
	s.a.mtu.jumbo = jumboProber{}

	t.Logf("# play alone")
	s.a.records.playInFlight = s.a.records.bytesInFlight
	p.moved()
	require.False(t, p.searchDue(s.now.Add(time.Hour), s.a))
}

// TestPlayIsNoSilence: in a game that ticks slowly acks wait for the next tick,
// and the peer is quiet between two. Neither makes QUIC ping.
func TestPlayIsNoSilence(t *testing.T) {
	for _, hz := range []int{60, 30, 20, 10, 4} {
		for _, delay := range []time.Duration{ms / 10, 25 * ms, 100 * ms} {
			each := time.Second / time.Duration(hz)
			a, b := newTicks(each, 0, 0), newTicks(each, 0, 0)
			b.next = b.next.Add(each / 3)
			client, server := ends(t, a, b, func(c *SessionConfig) { c.PlayDelay = min(max(40*ms, each*5/4), 200*ms); c.NoTrain = true })
			client.Start(netsim.Epoch, ID{1})
			server.Start(netsim.Epoch, ID{2})
			path := netsim.Config{Delay: delay}
			pair := netsim.NewPair(client, server, netsim.PairConfig{AtoB: path, BtoA: path, Max: SafePacket})
			require.NoError(t, pair.RunFor(5*time.Second))
			near, far := pinger{every: time.Second}, pinger{}
			pings := make([]int, 2)
			for range 10_000 {
				require.NoError(t, pair.RunFor(ms))
				for i, due := range []bool{near.take(pair.Now(), client), far.take(pair.Now(), server)} {
					if due {
						pings[i]++
					}
				}
			}
			require.InDelta(t, 10, pings[0], 1, "%d Hz, %v", hz, delay)
			require.LessOrEqual(t, pings[1], 1, "%d Hz, %v", hz, delay)
		}
	}
}
