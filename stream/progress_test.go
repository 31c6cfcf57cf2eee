package stream

import (
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// meter drives a speed in seconds after its begin.
type meter struct {
	*testing.T
	speed speed
	acked int64
}

func at(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func newMeter(t *testing.T, acked int64) *meter {
	m := &meter{T: t, acked: acked}
	m.speed.start(at(0), acked)
	return m
}

// run acks at a rate from one time to another, once in each interval.
func (m *meter) run(from, to, interval, rate float64) {
	for now := from + interval; now <= to+1e-9; now += interval {
		m.acked += int64(math.Round(rate * interval))
		m.speed.note(at(now), m.acked)
	}
}

func (m *meter) want(seconds, rate float64) {
	m.Helper()
	require.InDelta(m, rate, m.speed.at(at(seconds)), rate/100, "after %v s", seconds)
}

func TestSpeed(t *testing.T) {
	t.Log("# it has not begun")
	m := &meter{T: t}
	m.speed.note(at(1), 100)
	m.want(2, 0)

	t.Log("# a steady transfer, of which a quarter was there before")
	m = newMeter(t, 10_000)
	m.want(0, 0)
	m.run(0, 0.4, 0.1, 1000)
	m.want(0.4, 0)
	m.run(0.4, 60, 0.1, 1000)
	m.want(60, 1000)

	t.Log("# it has become faster, and shows that after speedTime; before, some of both")
	m.run(60, 63, 0.1, 2000)
	require.InDelta(t, 1500, m.speed.at(at(63)), 200)
	m.run(63, 66, 0.1, 2000)
	m.want(66, 2000)

	t.Log("# it stalls")
	require.InDelta(t, 1000, m.speed.at(at(69)), 200)
	m.want(72, 0)
	m.want(1e6, 0)

	t.Log("# and goes on: the time in which it stood still counts no longer than speedTime")
	m.run(3600, 3603, 0.1, 1000)
	require.InDelta(t, 500, m.speed.at(at(3603)), 1)
	m.run(3603, 3607, 0.1, 1000)
	m.want(3607, 1000)

	t.Log("# it is complete: the mean of all of it")
	m.speed.end(at(4000), m.acked)
	m.want(4000, float64(m.acked-10_000)/4000)
	m.want(5000, float64(m.acked-10_000)/4000)

	t.Log("# it was complete at once")
	m = newMeter(t, 0)
	m.speed.end(at(0), 1000)
	m.want(1, 0)
}

// TestSpeedOfAnyReports: however often a receiver reports, the speed is that of the last seconds.
func TestSpeedOfAnyReports(t *testing.T) {
	for _, interval := range []float64{0.001, 0.1, 0.35, 0.5, 0.6, 0.9, 1, 1.1, 1.7, 2.5} {
		m := newMeter(t, 0)
		m.run(0, 30, interval, 10_000)
		m.run(30, 60, interval, 5000)
		last := at(30 + math.Floor(30/interval+1e-6)*interval)
		require.InEpsilon(t, 5000, m.speed.at(last), 0.02, "a report in %v s", interval)
	}
}

func TestProgressReads(t *testing.T) {
	require.Equal(t, "2,048 sent, 1,024 of 4,096 acked (25.0 %), 512 resumed", Progress{Sent: 2048, Acked: 1024, Total: 4096, Resumed: 512}.String())
	require.Equal(t, "7 sent, 0 acked", Progress{Sent: 7, Total: -1}.String())
	require.Equal(t, "0 sent, 0 of 0 acked", Progress{}.String())
	require.Equal(t, "2,048 sent, 1,024 of 4,096 acked (25.0 %), 32 a second, 1m36s left", Progress{Sent: 2048, Acked: 1024, Total: 4096, Rate: 32}.String())
	require.Equal(t, "2 sent, 1 acked, 1 a second", Progress{Sent: 2, Acked: 1, Total: -1, Rate: 0.1}.String())
}

// TestTransfersRead: both ends print a transfer as what it is, with whom, and how far.
func TestTimeLeft(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Progress
		left time.Duration
		ok   bool
	}{
		{"on its way", Progress{Acked: 1000, Total: 4000, Rate: 100}, 30 * time.Second, true},
		{"slower than one a second", Progress{Acked: 1, Total: 2, Rate: 0.5}, 2 * time.Second, true},
		{"it has just begun, or stands still", Progress{Acked: 1000, Total: 4000}, 0, false},
		{"of unknown size", Progress{Acked: 1000, Total: -1, Rate: 100}, 0, false},
		{"the receiver is still handed what was stored", Progress{Acked: 1000, Total: 4000, Resumed: 3000, Rate: 100}, 10 * time.Second, true},
		{"all was stored", Progress{Acked: 1000, Total: 4000, Resumed: 4000}, 0, true},
		{"complete", Progress{Acked: 4000, Total: 4000, Rate: 100}, 0, true},
		{"empty", Progress{}, 0, true},
		{"longer than a Duration", Progress{Total: 1 << 62, Rate: 1e-3}, 0, false},
		{"no number", Progress{Total: 1, Rate: math.NaN()}, 0, false},
	} {
		left, ok := c.p.Left()
		require.Equal(t, c.left, left, c.name)
		require.Equal(t, c.ok, ok, c.name)
	}
}

// counts returns p without its Rate.
func counts(p Progress) Progress {
	p.Rate = 0
	return p
}

// wantRate asserts that both ends of a transfer report about the same rate and remaining time.
func wantRate(n *network, t *Transfer, in Incoming, rate, left float64) {
	n.Helper()
	for _, p := range []Progress{t.Progress(), in.Progress()} {
		estimate, ok := p.Left()
		require.True(n, ok, p)
		require.InEpsilon(n, rate, p.Rate, 0.15, p)
		require.InEpsilon(n, left, estimate.Seconds(), 0.2, p)
	}
}

// wantNone holds that no end of a transfer claims to know when it ends.
func wantNone(n *network, t *Transfer, in Incoming) {
	n.Helper()
	for _, p := range []Progress{t.Progress(), in.Progress()} {
		_, ok := p.Left()
		require.False(n, ok, p)
		require.Zero(n, p.Rate, p)
	}
}

// TestRatesOfProgress follows a transfer at both of its ends: it begins, runs,
// stops because nobody reads, continues and is complete.
func TestRatesOfProgress(t *testing.T) { overBackends(t, testRatesOfProgress) }

func testRatesOfProgress(t *testing.T, via Backend) {
	const rate, size = 1 << 20, 30 << 20
	inNetwork(t, setup{via: via}, func(n *network) {
		come, reads := make(chan *IncomingBlob, 1), make(chan int64)
		save.Handle(n.client.streams, func(in *IncomingBlob) {
			come <- in
			go func() {
				for most := range reads {
					_, _ = io.CopyN(io.Discard, in, most)
				}
			}()
		})
		transfer := n.mustStart(n.server.peer, content(size), Rate(rate))
		in := <-come
		wantNone(n, transfer, in.Incoming)
		time.Sleep(2 * time.Second)
		wantNone(n, transfer, in.Incoming) // nobody reads

		reads <- 16 << 20
		time.Sleep(10 * time.Second)
		p := transfer.Progress()
		wantRate(n, transfer, in.Incoming, rate, float64(p.Total-p.Acked)/rate)
		time.Sleep(12 * time.Second)
		require.InDelta(n, 16<<20, in.Progress().Acked, 64<<10)
		wantNone(n, transfer, in.Incoming)

		reads <- size
		close(reads)
		require.NoError(n, transfer.Wait(n.ctx))
		for _, p := range []Progress{transfer.Progress(), in.Progress()} {
			left, ok := p.Left()
			require.True(n, ok)
			require.Zero(n, left)
			require.InEpsilon(n, 1.2e6, p.Rate, 0.3, "the mean of all of it")
		}
	})
}

// TestSpeedAfterAResume: what the receiver had stored is no progress of this
// connection, at neither end.
func TestSpeedAfterAResume(t *testing.T) {
	const rate, size, stored = 1 << 20, 24 << 20, 12 << 20
	sent, store := content(size), newMemoryStore()
	store.put("k", memoryFile{data: sent[:stored]})
	inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
		come := make(chan *IncomingBlob, 1)
		save.Handle(n.client.streams, func(in *IncomingBlob) {
			come <- in
			go func() { _, _ = io.Copy(io.Discard, in) }()
		})
		transfer := n.mustStart(n.server.peer, sent, Key("k"), Rate(rate))
		in := <-come
		time.Sleep(4 * time.Second)
		wantRate(n, transfer, in.Incoming, rate, 8)
		require.NoError(n, transfer.Wait(n.ctx))
		require.InEpsilon(n, rate, transfer.Progress().Rate, 0.1)

		again := n.mustStart(n.server.peer, sent, Key("k"))
		require.NoError(n, again.Wait(n.ctx))
		require.Zero(n, again.Progress().Rate)
		require.Zero(n, (<-come).Progress().Rate)
	})
}

// TestRateOfUnknownSize: there is a rate, and the remaining time once the
// sender's source has ended.
func TestRateOfUnknownSize(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		come := make(chan *IncomingBlob, 1)
		save.Handle(n.client.streams, func(in *IncomingBlob) {
			come <- in
			go func() {
				for b := make([]byte, 10_000); ; time.Sleep(100 * time.Millisecond) {
					if _, err := io.ReadFull(in, b); err != nil {
						return
					}
				}
			}()
		})
		out, err := save.Create(n.server.peer)
		require.NoError(n, err)
		_, err = out.Write(content(500_000))
		require.NoError(n, err)
		in := <-come
		time.Sleep(2 * time.Second)
		for _, p := range []Progress{out.Progress(), in.Progress()} {
			_, ok := p.Left()
			require.False(n, ok, p)
			require.InEpsilon(n, 100_000, p.Rate, 0.2, p)
		}
		require.NoError(n, out.Close())
		time.Sleep(100 * time.Millisecond)
		wantRate(n, out.Transfer, in.Incoming, 100_000, 2.9)
		in.Cancel(nil)
		<-out.Done()
		require.Zero(n, out.Progress().Rate)
		require.Zero(n, in.Progress().Rate)
	})
}

// TestRateOfItems counts elements, also of a transfer that waits for another one first.
func TestRateOfItems(t *testing.T) {
	inNetwork(t, setup{client: Config{MaxTransfers: 1}}, func(n *network) {
		block := n.mustStart(n.server.peer, content(4<<20), Rate(1<<20))
		collect(n.client.streams)
		come := make(chan *IncomingArray[item], 1)
		items.Handle(n.client.streams, func(in *IncomingArray[item]) {
			come <- in
			go func() {
				for range in.Batches(n.ctx) {
					time.Sleep(100 * time.Millisecond)
				}
			}()
		})
		all := testItems(100_000)
		transfer, err := items.Start(n.server.peer, all)
		require.NoError(n, err)
		time.Sleep(2 * time.Second)
		_, ok := transfer.Progress().Left()
		require.False(n, ok, "it waits")
		require.NoError(n, block.Wait(n.ctx))
		in := <-come
		time.Sleep(2 * time.Second)
		p, q := transfer.Progress(), in.Progress()
		require.InEpsilon(n, float64(p.Acked)/2, p.Rate, 0.2, p)
		require.InEpsilon(n, p.Rate, q.Rate, 0.2)
		transfer.Cancel(errTest)
		<-transfer.Done()
		<-in.Done()
	})
}

// TestSpeedOfNobody: nobody asks, and all that is done is to keep a few numbers.
func TestSpeedOfNobody(t *testing.T) {
	var s speed
	s.start(at(0), 0)
	acked := int64(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		acked++
		s.note(at(float64(acked)), acked)
	}))
}
