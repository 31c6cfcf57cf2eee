package bunch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRTT(t *testing.T) {
	var r rtt
	require.Equal(t, initialRTT, r.current())
	require.Equal(t, 2*initialRTT+40*ms, r.pto(40*ms))

	t.Log("# RFC 9002, 5.3: the first sample sets all; the wait comes off only when the minimum allows")
	r.update(0, 100*ms, 30*ms)
	require.Equal(t, 100*ms, r.smoothed)
	require.Equal(t, 50*ms, r.variance)
	require.Equal(t, 100*ms, r.min)

	r.update(10*ms, 140*ms, 40*ms)
	require.Equal(t, 140*ms, r.latest)
	require.Equal(t, 100*ms, r.path)
	require.Equal(t, 100*ms, r.smoothed)
	require.Equal(t, 37500*time.Microsecond, r.variance)

	t.Log("# a wait that would go below the minimum is not believed")
	r.update(20*ms, 120*ms, 40*ms)
	require.Equal(t, 120*ms, r.path)
	require.Equal(t, 102500*time.Microsecond, r.smoothed)

	t.Log("# a lower sample is the new minimum, and its time")
	r.update(30*ms, 80*ms, 0)
	require.Equal(t, 80*ms, r.min)
	require.Equal(t, 30*ms, r.minAt)
	require.Equal(t, 80*ms, r.all)

	t.Log("# no sample is zero")
	r = rtt{}
	r.update(0, 0, 0)
	require.True(t, r.known())
}

func TestPTOHasAFloor(t *testing.T) {
	r := rtt{smoothed: 10 * ms, variance: 100 * time.Microsecond}
	require.Equal(t, 10*ms+2*ms+40*ms, r.pto(40*ms), "srtt + 2 ms + ack delay")
	r.variance = 5 * ms
	require.Equal(t, 10*ms+20*ms+40*ms, r.pto(40*ms), "srtt + 4 var + ack delay")
}
