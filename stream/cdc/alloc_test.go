//go:build !race

package cdc

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each content lost one buffer, so 3,000 small files, at which a get looks three
// times, cost more than 4 GiB of them. The race detector makes pools forget at random.
func TestCutsOfSmallContentsShareTheirBuffers(t *testing.T) {
	const cuts = 400
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range cuts {
		require.NoError(t, Cut(bytes.NewReader([]byte("small")), func(Chunk, []byte) error { return nil }))
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/cuts, uint64(MaxChunk/4))
}
