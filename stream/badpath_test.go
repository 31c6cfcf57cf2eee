package stream

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
)

// TestSealedOnABadPath: 4 MiB over UE's profile Bad, 5 % lost and 100 to 200 ms each way in
// order, at 20 Mbit/s, are 1.8 s. Of 960 the median takes 3.3 s, one in twenty more than 4.3, and
// two 11 and 29, by taking random loss for congestion. While three lost packets of play could end
// a start, one in a hundred and twenty took 10 to 42. While a train that jitter had drawn apart
// counted as a rate one in twenty took more than 10 s, and one in two hundred more than a minute.
func TestSealedOnABadPath(t *testing.T) {
	seed := testkit.Seed(t)
	var times []time.Duration
	for i := range testkit.Brief[uint64](2, 16) {
		path := netsim.Config{Delay: 100 * time.Millisecond, Jitter: 100 * time.Millisecond, Loss: 0.05, Rate: 20e6, Queue: 1 << 20, Seed: seed + i}
		times = append(times, badPath(t, path, 4<<20, []Backend{Window{}, Slices{}}[i%2], nil))
	}
	slices.Sort(times)
	t.Logf("%v", times)
	require.Less(t, times[(len(times)-1)/2], 7*time.Second)
	if n := len(times); n > 2 { // two seeds show little
		require.Less(t, times[n-2], 15*time.Second)
	}
}

// TestPathShorterForAMoment: a round trip of 150 ms that is 15 ms for 600 ms,
// and 150 again. The least delay is remembered for 10 s, and the rest was taken
// for a competitor's queue: 7.5 MiB at 20 Mbit/s, 3.1 s, took 11.
func TestPathShorterForAMoment(t *testing.T) {
	seed := testkit.Seed(t)
	for i, via := range []Backend{Window{}, Slices{}} {
		long := netsim.Config{Delay: 75 * time.Millisecond, Rate: 20e6, Queue: 375_000, Seed: seed + uint64(i)}
		short := long
		short.Delay /= 10
		took := badPath(t, long, 15<<19, via, func(there, back *netsim.Path) {
			time.Sleep(700 * time.Millisecond)
			there.SetConfig(short)
			back.SetConfig(short)
			time.Sleep(600 * time.Millisecond)
			there.SetConfig(long)
			back.SetConfig(long)
		})
		t.Logf("%T: %v", via, took)
		require.Less(t, took, 9*time.Second, "%T", via)
	}
}

// badPath returns how long so many bytes take; the path may change meanwhile.
func badPath(t *testing.T, path netsim.Config, size int, via Backend, meanwhile func(there, back *netsim.Path)) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		near, far := netsim.Pipe(path, path)
		l, leave := sealedPair(t, near, far)
		time.Sleep(3 * time.Second) // play alone
		got, begin := collect(l.server), time.Now()
		if meanwhile != nil {
			go meanwhile(near.To(far), far.To(near))
		}
		transfer, err := save.Start(l.toServer, generated(size), int64(size), Via(via))
		require.NoError(t, err)
		require.NoError(t, (<-got).err)
		took = time.Since(begin)
		require.NoError(t, transfer.Wait(t.Context()))
		leave()
		time.Sleep(time.Minute)
		_, _ = near.Close(), far.Close()
	})
	return took
}

// TestSlicesKnowThePath: slices over QUIC begin with the round trips that the connection
// has seen. Their gate had none of its own when the first transfer began: it took jitter
// for a queue and closed further with each round, and took the first flight over a long
// path for lost and ended its start. They took three to six times as long as a window.
func TestSlicesKnowThePath(t *testing.T) {
	seeds := testkit.Rand(t)
	for _, row := range []struct {
		name string
		path netsim.Config
	}{
		{"jitter", netsim.Config{Delay: 44 * time.Millisecond, Jitter: 41 * time.Millisecond, Rate: 38e6, Queue: 2 << 20}},
		{"long", netsim.Config{Delay: 160 * time.Millisecond, Clump: 10 * time.Millisecond, Rate: 108e6}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var window, slice time.Duration
			for range testkit.Brief(1, 3) {
				path := row.path
				path.Seed = seeds.Uint64()
				window += transferTime(t, path, 8<<20, Window{})
				slice += transferTime(t, path, 8<<20, Slices{})
			}
			t.Logf("windows %v, slices %v", window, slice)
			require.Less(t, slice, testkit.Brief[time.Duration](4, 2)*window) // one run in fifty takes twice as long
		})
	}
}

// TestPlayOutlivesTheLate: every other packet is late by three round trips, and none is lost.
// More gaps lay above late calls than an ack has room for, so nobody acked them though they
// had arrived, and in one of three runs the connection ended with ReliableBufferOverflow.
func TestPlayOutlivesTheLate(t *testing.T) {
	seeds := testkit.Rand(t)
	for range testkit.Brief(1, 8) {
		path := netsim.Config{Delay: 150 * time.Millisecond, Alternate: 900 * time.Millisecond, Rate: 20e6, Queue: 750e3, Seed: seeds.Uint64()}
		latencies, took := play(t, path, Window{})
		slices.Sort(latencies)
		t.Logf("%d calls, p99 %v, the blob %v", len(latencies), quantile(latencies, 0.99), took)
	}
}
