package scenes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJain(t *testing.T) {
	require.InDelta(t, 1, Jain([]float64{5}), 1e-9)
	require.InDelta(t, 1, Jain([]float64{3, 3, 3}), 1e-9)
	require.InDelta(t, 0.25, Jain([]float64{1, 0, 0, 0}), 1e-9)
	require.InDelta(t, 0.9, Jain([]float64{1, 2}), 1e-9)
	require.Zero(t, Jain([]float64{0}))
}

func TestPercentile(t *testing.T) {
	require.Zero(t, Percentile([]time.Duration(nil), 0.99))
	var delays []time.Duration
	for i := range 200 {
		delays = append(delays, time.Duration(200-i)*time.Millisecond)
	}
	require.Equal(t, 199*time.Millisecond, Percentile(delays, 0.99))
	require.Equal(t, 101*time.Millisecond, Percentile(delays, 0.5))
	require.Equal(t, time.Millisecond, Percentile(delays, 0))
	require.Equal(t, 200*time.Millisecond, Percentile(delays, 1))
	require.Equal(t, 200*time.Millisecond, delays[0], "they stay in their order")
}
