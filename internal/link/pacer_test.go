package link

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPacerKeepsQUICsPace(t *testing.T) {
	const ms = time.Millisecond
	var p pacer
	now := time.Unix(1000, 0)
	require.Zero(t, p.wait(), "nothing is known")
	path := Path{Cwnd: 25_000, SmoothedRTT: 100 * ms} // 500,000 bytes a second
	p.update(now, path, 1210)
	left := 0
	for ; p.wait() == 0; left++ {
		p.sent(1210)
	}
	require.Equal(t, paceBurst, left, "a burst after a rest")
	require.Equal(t, 2500*time.Microsecond, p.wait(), "1,250 bytes")
	now = now.Add(2 * ms)
	p.update(now, path, 1210)
	require.Equal(t, ms, p.wait(), "not less, so that several leave together")
	now = now.Add(ms)
	p.update(now, path, 1210)
	require.Zero(t, p.wait())
	t.Log("# a fast path takes what leaves in 2 ms at once")
	path.Cwnd = 2_500_000
	p.update(now.Add(time.Second), path, 1210)
	for left = 0; p.wait() == 0; left++ {
		p.sent(1210)
	}
	require.Equal(t, 80, left)
	p.update(now, Path{Cwnd: 1000}, 1210)
	require.Zero(t, p.wait(), "no round trip is known")
}
