package budget

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMeter(t *testing.T) {
	require.Nil(t, NewMeter(0))
	var none *Meter
	none.spend(time.Unix(0, 0), 1<<20)
	require.Zero(t, none.play(time.Unix(0, 0), 1<<20)+none.bulk(time.Unix(0, 0)))

	m := NewMeter(100_000) // UE: the default NetSpeed
	now := time.Unix(1000, 0)
	t.Log("# play has the savings of 66 ms, bulk half of it")
	play, bulk := 0, 0
	for m.bulk(now) == 0 {
		m.spend(now, 1000)
		bulk += 1000
	}
	for m.play(now, 0) == 0 {
		m.spend(now, 1000)
		play += 1000
	}
	require.Equal(t, []int{4000, 3000}, []int{bulk, play}, "the last datagram goes into debt")
	t.Log("# what passes all the same is counted")
	m.spend(now, 1000)
	require.Equal(t, 14*time.Millisecond, m.play(now, 0))
	require.Equal(t, 47*time.Millisecond, m.bulk(now))
	t.Log("# what waits already counts before a call")
	now = now.Add(20 * time.Millisecond)
	require.Zero(t, m.play(now, 600))
	require.Equal(t, 4*time.Millisecond, m.play(now, 1000))
	t.Log("# an idle meter saves no more than that")
	now = now.Add(time.Hour)
	for play = 0; m.play(now, 0) == 0; play += 1000 {
		m.spend(now, 1000)
	}
	require.Equal(t, 7000, play)
}

// TestMeterOfAnyRate: the highest rate doesn't overflow, and the lowest rounds up.
func TestMeterOfAnyRate(t *testing.T) {
	require.Equal(t, time.Duration(1), NewMeter(math.MaxInt).time(1))
	require.Equal(t, 1<<20*time.Second, NewMeter(1).time(1<<20))
	require.Equal(t, time.Duration(333_333_334), NewMeter(3).time(1))
	require.Zero(t, NewMeter(3).time(0))
}

func TestSlowMeterLetsDatagramsThrough(t *testing.T) {
	m := NewMeter(1000)
	now := time.Unix(1000, 0)
	for range 3 {
		require.Zero(t, m.bulk(now))
		m.spend(now, 1200)
	}
	require.Equal(t, 600*time.Millisecond, m.bulk(now))
	for range 2 {
		require.Zero(t, m.play(now, 0))
		m.spend(now, 1200)
	}
	require.Zero(t, m.play(now, 0))
}

// bulkPatience keeps what a peer waits for from starving.
func TestBulkNeverStarves(t *testing.T) {
	a := &Allowance{own: NewMeter(1000)}
	now := time.Unix(1000, 0)
	a.own.spend(now, 1<<20)
	require.Equal(t, bulkPatience, a.BookBulk(now))
	now = now.Add(bulkPatience)
	require.Zero(t, a.BookBulk(now))
	a.Spend(now, 1200)
	require.Equal(t, bulkPatience, a.BookBulk(now))
}
