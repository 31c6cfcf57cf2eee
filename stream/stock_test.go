package stream

import (
	"bytes"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// stockOf is a connection's part of a stock of its own.
func stockOf(bytes int64) *stockAccount { return &stockAccount{stock: newStock(bytes)} }

func TestStockIsSharedAndLeavesSomeToEverybody(t *testing.T) {
	const most = 1 << 20
	s := newStock(most)
	all := make([]*holding, 64)
	for i := range all {
		all[i] = &holding{account: &stockAccount{stock: s}, freed: func() {}}
	}
	greedy := func(h *holding) {
		for h.room() {
			h.take(fullBlock(partBytes))
		}
	}
	greedy(all[0])
	require.InDelta(t, most/2, all[0].bytes.Load(), blockBytes+blockCost)
	for _, h := range all[1:] {
		greedy(h)
		require.GreaterOrEqual(t, h.bytes.Load(), int64(leastStock))
		require.LessOrEqual(t, h.bytes.Load(), int64(most/2))
	}
	require.LessOrEqual(t, s.used.Load(), int64(most+len(all)*(leastStock+2*blockCost)))
}

func TestStockGetsEverythingBack(t *testing.T) {
	a := stockOf(1 << 20)
	freed := 0
	h := &holding{account: a, freed: func() { freed++ }}
	c := fullBlock(partBytes)
	c.append(content(1000))
	h.take(c)
	front := c.cut(300)
	require.Equal(t, front.cost()+c.cost(), h.bytes.Load())
	front.Free()
	c.Free()
	require.Equal(t, 2, freed)
	require.Zero(t, h.bytes.Load())
	require.Zero(t, a.stock.used.Load())

	h.take(fullBlock(partBytes))
	a.close()
	require.Zero(t, a.stock.used.Load(), "what lies with a connection that has ended goes with it")
	h.give(blockBytes)
	require.Zero(t, a.stock.used.Load())
}

func TestFeedReadsAheadNoFurtherThanTheStockAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := content(1 << 20)
		a := stockOf(0)
		f := newFeed(&blobSource{r: bytes.NewReader(data), left: -1}, BLAKE3, partBytes, false, a, func() {}, unguarded)
		go f.run()
		defer f.stop()
		synctest.Wait()
		require.LessOrEqual(t, f.bytes, leastStock)
		require.Greater(t, f.bytes, leastStock/2)
		require.True(t, bytes.Equal(data, drain(f, math.MaxInt64)))
		require.Zero(t, a.stock.used.Load())
	})
}
