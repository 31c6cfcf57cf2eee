package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/stream"
)

// BenchmarkGameplayBesideBulk pools the delays of the gameplay RPC over many transfers of 4 MiB over 10 Mbit/s and 50 ms
// without loss: 15 rounds (-benchtime 15x) are more than 3,000 calls.
func BenchmarkGameplayBesideBulk(b *testing.B) {
	var loaded, unloaded []time.Duration
	var up, down, best float64
	for seed := uint64(1); b.Loop(); seed++ {
		r, err := runDemo(b.Context(), demoOptions{
			size:    4 << 20,
			link:    impairment{rtt: 50 * time.Millisecond, rate: 10e6, seed: seed},
			backend: stream.Window{},
		})
		require.NoError(b, err)
		require.True(b, r.DigestOK)
		loaded, unloaded = append(loaded, r.loaded...), append(unloaded, r.unloaded...)
		up, down, best = up+r.UploadSeconds, down+r.DownloadSeconds, best+r.IdealSeconds
	}
	b.ReportMetric(milliseconds(percentile(loaded, 99)), "p99-ms")
	b.ReportMetric(milliseconds(percentile(unloaded, 99)), "unloaded-p99-ms")
	b.ReportMetric(float64(len(loaded)), "calls")
	b.ReportMetric(up/best, "upload/ideal")
	b.ReportMetric(down/best, "download/ideal")
}
