package netsim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBottleneckSteps(t *testing.T) {
	b := newBottleneck(Config{Rate: 8_000_000, Queue: 3000}) // a byte takes 1 us
	offer := func(at time.Duration, bytes int, want time.Duration) {
		t.Helper()
		depart, ok := b.offer(Epoch.Add(at), bytes)
		require.Equal(t, want >= 0, ok)
		if ok {
			require.Equal(t, want, depart.Sub(Epoch))
		}
	}
	t.Logf("# an idle bottleneck sends at once, also what is larger than its queue")
	offer(0, 5000, 5*time.Millisecond)
	t.Logf("# while more than the queue holds waits, all is dropped")
	offer(time.Millisecond, 1, -1)
	t.Logf("# 1,000 B are left on the wire: 2,000 B fit, 2,001 do not")
	offer(4*time.Millisecond, 2001, -1)
	offer(4*time.Millisecond, 2000, 7*time.Millisecond)
	offer(4*time.Millisecond, 1, -1)
	require.Equal(t, 3000, b.backlog(Epoch.Add(4*time.Millisecond)))
	t.Logf("# after a pause it starts afresh")
	offer(time.Second, 1000, time.Second+time.Millisecond)
	require.Equal(t, 0, b.backlog(Epoch.Add(2*time.Second)))
}

// The parts of a nanosecond add up: a bottleneck holds its rate exactly however odd it is.
func TestBottleneckKeepsFractions(t *testing.T) {
	b := newBottleneck(Config{Rate: 999_999_937, Queue: maxQueue})
	var depart time.Time
	for range 100_000 {
		var ok bool
		depart, ok = b.offer(Epoch, 1)
		require.True(t, ok)
	}
	require.Equal(t, uint64(100_000*8*1e9)/999_999_937, uint64(depart.Sub(Epoch)))
}

func TestBottleneckOff(t *testing.T) {
	b := newBottleneck(Config{Queue: 1})
	for range 1000 {
		depart, ok := b.offer(Epoch, 1000)
		require.True(t, ok)
		require.Equal(t, Epoch, depart)
	}
	require.Zero(t, b.backlog(Epoch))
}

func TestRateChanges(t *testing.T) {
	b := newBottleneck(Config{Rate: 8_000_000, Queue: 100_000}) // a byte takes 1 us
	b.setRate(Epoch.Add(10*time.Millisecond), 800_000)
	b.setRate(Epoch.Add(30*time.Millisecond), 8_000_000)
	depart, ok := b.offer(Epoch, 11_000)
	require.True(t, ok)
	require.Equal(t, 20*time.Millisecond, depart.Sub(Epoch), "10,000 B at the first rate, 1,000 B at a tenth of it")
	depart, ok = b.offer(Epoch, 2_000)
	require.True(t, ok)
	require.Equal(t, 31*time.Millisecond, depart.Sub(Epoch), "1,000 B at each rate")
	require.Equal(t, 13_000, b.backlog(Epoch))
	require.Equal(t, 1_500, b.backlog(Epoch.Add(25*time.Millisecond)))
	_, ok = b.offer(Epoch, 100_000)
	require.False(t, ok)
	require.Equal(t, 0, b.backlog(Epoch.Add(time.Second)))
}

func TestPolicer(t *testing.T) {
	b := newBottleneck(Config{Police: 8_000_000, Bucket: 3000})
	for _, want := range []bool{true, true, true, false} {
		depart, ok := b.offer(Epoch, 1000)
		require.Equal(t, want, ok)
		if ok {
			require.Equal(t, Epoch, depart, "nothing waits")
		}
	}
	_, ok := b.offer(Epoch.Add(999*time.Microsecond), 1000)
	require.False(t, ok)
	_, ok = b.offer(Epoch.Add(1000*time.Microsecond), 1000)
	require.True(t, ok, "a byte a microsecond comes back")
}

// CoDel does not drop from a short queue, and drops more and more often from
// one that stands, until it is short.
func TestCoDel(t *testing.T) {
	b := newBottleneck(Config{Rate: 8_000_000, Queue: 1 << 20, CoDel: true})
	drops := func(from, until time.Duration, each time.Duration) (n int) {
		for at := from; at < until; at += each {
			if _, ok := b.offer(Epoch.Add(at), 1000); !ok {
				n++
			}
		}
		return n
	}
	require.Zero(t, drops(0, time.Second, time.Millisecond), "no queue")
	t.Log("# a tenth more than the link takes: after the queue has stood for 100 ms drops begin")
	require.Zero(t, drops(time.Second, 1130*time.Millisecond, 900*time.Microsecond))
	first := drops(1130*time.Millisecond, 3*time.Second, 900*time.Microsecond)
	then := drops(3*time.Second, 5*time.Second, 900*time.Microsecond)
	require.Greater(t, first, 10)
	require.Greater(t, then, first, "faster and faster")
	require.Zero(t, drops(10*time.Second, 11*time.Second, time.Millisecond), "the queue is gone")
}

// PIE tolerates a burst, and under constant overload drops as much as keeps the
// queue at some 15 ms.
func TestPIE(t *testing.T) {
	b := newBottleneck(Config{Rate: 8_000_000, Queue: 1 << 20, PIE: true, Seed: 1})
	offer := func(from, until time.Duration, each time.Duration) (offered, dropped, waited int) {
		for at := from; at < until; at += each {
			depart, ok := b.offer(Epoch.Add(at), 1000)
			if offered++; !ok {
				dropped++
				continue
			}
			waited += int(depart.Sub(Epoch.Add(at)) / time.Millisecond)
		}
		return offered, dropped, waited
	}
	_, dropped, _ := offer(0, time.Second, time.Millisecond)
	require.Zero(t, dropped, "no queue")
	_, dropped, _ = offer(time.Second, 1130*time.Millisecond, 900*time.Microsecond)
	require.Zero(t, dropped, "130 ms of a tenth more than the link takes")
	offer(1130*time.Millisecond, 10*time.Second, 900*time.Microsecond)
	offered, dropped, waited := offer(10*time.Second, 40*time.Second, 900*time.Microsecond)
	require.InDelta(t, 0.1, float64(dropped)/float64(offered), 0.02)
	require.InDelta(t, 15, float64(waited)/float64(offered-dropped), 4)
	_, dropped, _ = offer(41*time.Second, 42*time.Second, time.Millisecond)
	require.Zero(t, dropped, "the queue is gone")
}
