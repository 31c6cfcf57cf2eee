package sealed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClientsPing: while there is traffic a client pings each second, which keeps QUIC at both ends awake. A server pings only when it waits
// in vain for an ack.
func TestClientsPing(t *testing.T) {
	s := newStep(t, 20, nil).open()
	var client, server pinger
	count := func() (a, b int) {
		for end := s.now.Add(10 * time.Second); s.now.Before(end); {
			s.up.again, s.up.acked[5] = append(s.up.again, 5), false // there is always something to send
			s.a.Wake()
			s.exchange(10 * ms)
			if client.due(s.now, s.a) {
				a++
			}
			if server.due(s.now, s.b) {
				b++
			}
		}
		return a, b
	}
	count()
	a, b := count()
	require.Equal(t, []int{10, 0}, []int{a, b})

	t.Logf("# the server has sent something, and hears nothing any more")
	s.b.hearing.probes = 1
	require.Len(t, s.build(s.b), 1)
	s.now = s.now.Add(time.Second)
	require.True(t, server.due(s.now, s.b))
}
