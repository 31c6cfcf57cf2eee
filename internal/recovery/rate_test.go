package recovery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// delivers counts and samples a packet that left at sent and arrived by now.
func (r *rate) delivers(now, sent time.Duration, m *Mark, size int, shortest time.Duration) {
	r.count(m, size)
	r.deliveredAt = now
	r.sample(now, sent, m, shortest, false)
}

// TestRateBeginsAtTheLastSample: a sample begins where the packet left that was sampled before it.
func TestRateBeginsAtTheLastSample(t *testing.T) {
	var r rate
	first := r.mark(0, 0)
	second := r.mark(100*ms, 1000)
	r.delivers(100*ms, 0, &first, 1000, 0)
	r.delivers(200*ms, 100*ms, &second, 1000, 0)
	third := r.mark(200*ms, 1000)
	r.delivers(300*ms, 200*ms, &third, 4000, 0)
	require.InDelta(t, 40_000, r.value, 1, "4,000 bytes in 100 ms")
}

func TestShortSamplesDoNotCount(t *testing.T) {
	var r rate
	m := r.mark(0, 0)
	r.delivers(49*ms, 0, &m, 1000, 50*ms)
	require.Zero(t, r.value)
	m = r.mark(100*ms, 0)
	r.delivers(150*ms, 100*ms, &m, 1000, 50*ms)
	require.InDelta(t, 20_000, r.value, 1)
}
