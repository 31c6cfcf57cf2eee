package stream

import (
	"bytes"
	"math"
	"testing"
	"testing/synctest"

	"github.com/quivernet/quiver/internal/budget"
	"github.com/stretchr/testify/require"
)

// stockOf is a connection's part of a stock of its own.
func stockOf(bytes int64) *budget.StockAccount {
	return budget.NewStock(bytes, minStock).NewAccount()
}

func TestStockIsSharedAndLeavesSomeToEverybody(t *testing.T) {
	const most = 1 << 20
	s := budget.NewStock(most, minStock)
	all := make([]*budget.Holding, 64)
	for i := range all {
		all[i] = budget.NewHolding(s.NewAccount(), func() {})
	}
	greedy := func(h *budget.Holding) {
		for h.Room(true) {
			newPageBlock(partBytes).chargeTo(h)
		}
	}
	greedy(all[0])
	require.InDelta(t, most/2, all[0].Bytes(), blockBytes+blockOverhead)
	for _, h := range all[1:] {
		greedy(h)
		require.GreaterOrEqual(t, h.Bytes(), int64(minStock))
		require.LessOrEqual(t, h.Bytes(), int64(most/2))
	}
	require.LessOrEqual(t, s.Used(), int64(most+len(all)*(minStock+2*blockOverhead)))
}

func TestStockGetsEverythingBack(t *testing.T) {
	s := budget.NewStock(1<<20, minStock)
	a, freed := s.NewAccount(), 0
	h := budget.NewHolding(a, func() { freed++ })
	b := newPageBlock(partBytes)
	b.append(content(1000))
	b.chargeTo(h)
	front := b.cutFront(300)
	require.Equal(t, front.cost()+b.cost(), h.Bytes())
	front.Free()
	b.Free()
	require.Equal(t, 2, freed)
	require.Zero(t, h.Bytes())
	require.Zero(t, s.Used())

	newPageBlock(partBytes).chargeTo(h)
	a.Close()
	require.Zero(t, s.Used(), "what lies with a connection that has ended goes with it")
	h.Give(blockBytes)
	require.Zero(t, s.Used())
}

func TestReaderReadsAheadNoFurtherThanTheStockAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := content(1 << 20)
		a := stockOf(0)
		f := newReader(readerConfig{source: &blobSource{r: bytes.NewReader(data), left: -1}, hash: BLAKE3, partSize: partBytes, account: a, wake: func() {}, guard: unguarded}, false)
		go f.run()
		defer f.stop()
		synctest.Wait()
		require.Zero(t, f.ready.bytes, "it could not leave")
		require.False(t, f.allow(math.MaxInt64))
		synctest.Wait()
		require.LessOrEqual(t, f.ready.bytes, minStock)
		require.Greater(t, f.ready.bytes, minStock/2)
		require.True(t, bytes.Equal(data, drain(f, math.MaxInt64)))
		require.Zero(t, a.Bytes())
	})
}

// TestHalfOfTheStockIsKept for connections whose peers have acknowledged more than they hold.
func TestHalfOfTheStockIsKept(t *testing.T) {
	const most = 1 << 20
	s := budget.NewStock(most, minStock)
	take := func(h *budget.Holding, mayLeave bool) {
		for h.Room(mayLeave) {
			newPageBlock(partBytes).chargeTo(h)
		}
	}
	idle, stuck, moving := budget.NewHolding(s.NewAccount(), func() {}), budget.NewHolding(s.NewAccount(), func() {}), budget.NewHolding(s.NewAccount(), func() {})
	take(idle, false)
	require.InDelta(t, most/4, idle.Bytes(), blockBytes+blockOverhead)
	for range 10 {
		take(idle, false)
		take(stuck, true)
	}
	require.Less(t, s.Used(), int64(most/2+minStock+2*(blockBytes+blockOverhead)))
	t.Log("# it begins with the least, and has more with each that its peer takes")
	take(moving, true)
	require.InDelta(t, minStock, moving.Bytes(), blockBytes)
	for range 100 { // freed, by the end of its transfer perhaps
		moving.Give(blockBytes + blockOverhead)
		take(moving, true)
	}
	require.InDelta(t, minStock, moving.Bytes(), blockBytes)
	for range 100 {
		moving.Acked(blockBytes + blockOverhead)
		moving.Give(blockBytes + blockOverhead)
		take(moving, true)
	}
	require.Greater(t, moving.Bytes(), int64(most/8))
	require.Less(t, s.Used(), int64(most))
}

// TestSlicesCountAsAcked when they are freed, and what a transfer has dropped
// does not: the peer took nothing of that.
func TestSlicesCountAsAcked(t *testing.T) {
	const most = 1 << 20
	for _, sliced := range []bool{true, false} {
		s := budget.NewStock(most, minStock)
		stuck, h, peak := budget.NewHolding(s.NewAccount(), func() {}), budget.NewHolding(s.NewAccount(), func() {}), int64(0)
		for stuck.Room(true) {
			newPageBlock(partBytes).chargeTo(stuck)
		}
		for range 100 {
			var blocks []*block
			for h.Room(true) {
				b := newPageBlock(partBytes)
				b.chargeTo(h)
				b.sentAsSlices = sliced
				blocks = append(blocks, b)
			}
			peak = max(peak, h.Bytes())
			for _, b := range blocks {
				b.Free()
			}
			require.Zero(t, h.Bytes())
		}
		require.Equal(t, sliced, peak > most/8, "%d", peak)
	}
}
