package netsim

import (
	"github.com/quivernet/quiver/internal/testkit"

	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// got is a packet as a linkTest's link delivered it.
type got struct {
	number uint32
	at     time.Duration
	size   int
}

// linkTest sends numbered packets and drains the link.
type linkTest struct {
	*testing.T
	link *Link
	sent uint32
}

func newLinkTest(t *testing.T, cfg Config) *linkTest { return &linkTest{T: t, link: NewLink(cfg)} }

func (t *linkTest) send(at time.Duration, size int) Fate {
	t.Helper()
	p := make([]byte, size)
	binary.BigEndian.PutUint32(p, t.sent)
	t.sent++
	return t.link.Send(Epoch.Add(at), p)
}

// drain delivers all that is on its way, each packet at the time that
// NextTimeout says and not before.
func (t *linkTest) drain() (all []got) {
	t.Helper()
	for {
		at, ok := t.link.NextTimeout()
		if !ok {
			_, ok := t.link.Deliver(Epoch.Add(1000 * time.Hour))
			require.False(t, ok)
			return all
		}
		if at.After(t.link.now) {
			if _, early := t.link.Deliver(at.Add(-1)); early {
				t.Fatalf("a packet arrived before NextTimeout %v", at)
			}
		}
		p, ok := t.link.Deliver(at)
		if !ok {
			t.Fatalf("no packet arrived at NextTimeout %v", at)
		}
		all = append(all, got{number: binary.BigEndian.Uint32(p), at: at.Sub(Epoch), size: len(p)})
	}
}

func TestLinkDelay(t *testing.T) {
	l := newLinkTest(t, Config{Delay: 50 * ms})
	require.Equal(t, Carried, l.send(0, 100))
	require.Equal(t, Carried, l.send(0, 200))
	require.Equal(t, Carried, l.send(7*ms, 4))
	require.Equal(t, []got{{0, 50 * ms, 100}, {1, 50 * ms, 200}, {2, 57 * ms, 4}}, l.drain())
	require.Equal(t, Stats{
		Packets: 3, Bytes: 304, Carried: 3, CarriedBytes: 304 + 3*28, Delivered: 3, DeliveredBytes: 304,
	}, l.link.Stats())
}

func TestLinkJitter(t *testing.T) {
	l := newLinkTest(t, Config{Delay: 50 * ms, Jitter: 20 * ms, Seed: testkit.Seed(t)})
	const n = 20_000
	for i := range n {
		l.send(time.Duration(i)*20*ms, 100) // no closer than the jitter, so that order needs no help
	}
	var sum time.Duration
	for i, g := range l.drain() {
		late := g.at - time.Duration(i)*20*ms
		if late < 50*ms || late >= 70*ms {
			t.Fatalf("packet %d came after %v", i, late)
		}
		sum += late
	}
	require.InEpsilon(t, 60*ms, sum/n, 0.01)
}

func TestLinkJitterKeepsOrder(t *testing.T) {
	l := newLinkTest(t, Config{Jitter: 100 * ms, Seed: testkit.Seed(t)})
	for i := range 1000 {
		l.send(time.Duration(i)*ms, 100)
	}
	for i, g := range l.drain() {
		require.EqualValues(t, i, g.number)
	}
}

func TestLinkLoss(t *testing.T) {
	for _, loss := range []float64{0, 0.01, 0.05, 0.2, 0.5, 1} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			l := NewLink(Config{Loss: loss, Seed: testkit.Seed(t)})
			n := int(12_000 / max(loss, 0.01)) // 5 % are more than 5 standard deviations
			for range n {
				l.Send(Epoch, nil)
				l.Deliver(Epoch)
			}
			s := l.Stats()
			require.InDelta(t, loss, float64(s.Lost)/float64(n), loss*0.05)
			require.EqualValues(t, n, s.Carried, "a lost packet used the link")
			require.Equal(t, s.Lost, s.Dropped())
			require.EqualValues(t, n-int(s.Lost), s.Delivered)
		})
	}
}

func TestLinkBursts(t *testing.T) {
	for _, test := range []struct{ loss, length float64 }{{0.02, 2}, {0.2, 20}, {0.5, 1.5}} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			l := NewLink(Config{Burst: Bursts(test.loss, test.length), Seed: testkit.Seed(t)})
			n := int(24_000 * test.length / test.loss) // 24,000 bursts: 5 % are more than 5 standard deviations
			var lost, bursts int
			last := Carried
			for range n {
				fate := l.Send(Epoch, nil)
				l.Deliver(Epoch)
				if fate == LostBurst {
					lost++
					if last == Carried {
						bursts++
					}
				}
				last = fate
			}
			require.InEpsilon(t, test.loss, float64(lost)/float64(n), 0.05)
			require.InEpsilon(t, test.length, float64(lost)/float64(bursts), 0.05)
			require.EqualValues(t, lost, l.Stats().LostBurst)
		})
	}
}

// With Idle, a burst ends when nothing is sent.
func TestLinkBurstIdle(t *testing.T) {
	for idle, lost := range map[time.Duration]uint64{0: 40, 10 * ms: 1} {
		l := NewLink(Config{Burst: Burst{Enter: 1, Leave: 1e-9, Idle: idle}, Seed: testkit.Seed(t)})
		l.Send(Epoch, nil)
		l.cfg.Burst.Enter = 0
		for i := range 39 {
			l.Send(Epoch.Add(time.Duration(i+1)*11*ms), nil)
		}
		require.Equal(t, lost, l.Stats().LostBurst, idle)
	}
}

// A burst need not lose every packet, and random loss continues within and without.
func TestLinkBurstPartial(t *testing.T) {
	l := NewLink(Config{Loss: 0.1, Burst: Burst{Enter: 0.02, Leave: 0.08, Loss: 0.5}, Seed: testkit.Seed(t)})
	const n = 2_000_000
	for range n {
		l.Send(Epoch, nil)
		l.Deliver(Epoch)
	}
	burst := 0.5 * 0.02 / (0.02 + 0.08)
	require.InEpsilon(t, burst, float64(l.Stats().LostBurst)/n, 0.05)
	require.InEpsilon(t, 0.1*(1-burst), float64(l.Stats().Lost)/n, 0.05)
}

func TestLinkLose(t *testing.T) {
	l := newLinkTest(t, Config{Lose: func(n uint64, p []byte) bool { return n == 1 || len(p) == 7 }})
	require.Equal(t, Carried, l.send(0, 100))
	require.Equal(t, Lost, l.send(0, 100))
	require.Equal(t, Lost, l.send(0, 7))
	require.Equal(t, []got{{0, 0, 100}}, l.drain())
}

func TestLinkRate(t *testing.T) {
	l := newLinkTest(t, Config{Rate: 10e6, Delay: 25 * ms, Queue: 1 << 20})
	const size, n = 1222, 800 // 1,250 B with overhead: 1 ms each
	for range n {
		require.Equal(t, Carried, l.send(0, size))
	}
	require.Equal(t, n*1250, l.link.Backlog(Epoch))
	all := l.drain()
	for i, g := range all {
		require.Equal(t, got{uint32(i), time.Duration(i+1)*ms + 25*ms, size}, g)
	}
}

func TestLinkQueue(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  Config
		want int // bytes that fit at once
	}{
		{"stated", Config{Rate: 1e6, Queue: 10_000}, 10_000},
		{"at least 64 KiB", Config{Rate: 1e6, Delay: ms}, 64 << 10},
		{"one BDP", Config{Rate: 100e6, Delay: 50 * ms}, 1_250_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLinkTest(t, test.cfg)
			const wire = 1000
			for range 3 * test.want / wire {
				l.send(0, wire-28)
			}
			s := l.link.Stats()
			require.EqualValues(t, test.want/wire, s.Carried)
			require.EqualValues(t, test.want/wire*wire, s.CarriedBytes)
			require.Equal(t, l.sent, uint32(s.Carried+s.LostQueue))
			all := l.drain()
			full := time.Duration(float64(test.want/wire*wire*8) / float64(test.cfg.Rate) * 1e9)
			require.InDelta(t, full+test.cfg.Delay, all[len(all)-1].at, 2, "the last one waited for the whole queue")
		})
	}
}

func TestLinkDuplicate(t *testing.T) {
	l := newLinkTest(t, Config{Duplicate: 0.1, Delay: ms, Seed: testkit.Seed(t)})
	const n = 100_000
	for range n {
		l.send(0, 8)
	}
	copies := make([]int, n)
	for _, g := range l.drain() {
		copies[g.number]++
	}
	twice := 0
	for i, c := range copies {
		if c != 1 && c != 2 {
			t.Fatalf("packet %d came %d times", i, c)
		}
		twice += c - 1
	}
	require.InEpsilon(t, 0.1, float64(twice)/n, 0.05)
	require.EqualValues(t, twice, l.link.Stats().Duplicated)
	require.EqualValues(t, n, l.link.Stats().Carried, "a copy does not use the bottleneck")
}

// A copy shares no memory with its original, since both change owner.
func TestLinkDuplicateIsACopy(t *testing.T) {
	l := newLinkTest(t, Config{Duplicate: 1})
	l.send(0, 8)
	first, _ := l.link.Deliver(Epoch)
	first[7] = 1
	second, ok := l.link.Deliver(Epoch)
	require.True(t, ok)
	require.Zero(t, second[7])
}

func TestLinkReorder(t *testing.T) {
	l := newLinkTest(t, Config{Delay: 40 * ms, Reorder: 0.1, Seed: testkit.Seed(t)})
	const n = 100_000
	for i := range n {
		l.send(time.Duration(i)*ms, 8)
	}
	overtaken, newest := 0, uint32(0)
	for _, g := range l.drain() {
		if g.number < newest {
			overtaken++
			require.Equal(t, time.Duration(g.number)*ms+50*ms, g.at, "held back by a quarter of the delay")
		}
		newest = max(newest, g.number)
	}
	require.InEpsilon(t, 0.1, float64(overtaken)/n, 0.05)
	require.EqualValues(t, n, l.link.Stats().Delivered)
}

func TestLinkMTU(t *testing.T) {
	l := newLinkTest(t, Config{MTU: 1200, Rate: 1e6})
	require.Equal(t, Carried, l.send(0, 1200))
	require.Equal(t, LostMTU, l.send(0, 1201))
	require.EqualValues(t, 1228, l.link.Stats().CarriedBytes, "a packet that is too large never used the link")

	t.Logf("# the path shrinks, and later grows beyond")
	l.link.SetMTU(Epoch.Add(20*ms), 0)
	l.link.SetMTU(Epoch.Add(10*ms), 500)
	require.Equal(t, Carried, l.send(10*ms-1, 1200))
	require.Equal(t, 1200, l.link.MTU(Epoch.Add(10*ms-1)))
	require.Equal(t, LostMTU, l.send(10*ms, 501))
	require.Equal(t, 500, l.link.MTU(Epoch.Add(15*ms)))
	require.Equal(t, Carried, l.send(15*ms, 500))
	require.Equal(t, Carried, l.send(20*ms, 9000))
	require.Equal(t, 0, l.link.MTU(Epoch.Add(20*ms)))
	require.EqualValues(t, 2, l.link.Stats().LostMTU)
}

func TestLinkDark(t *testing.T) {
	l := newLinkTest(t, Config{Delay: 100 * ms})
	l.link.Dark(Epoch.Add(10*ms), Epoch.Add(20*ms))
	l.link.Dark(Epoch.Add(30*ms), Epoch.Add(40*ms))
	var dark []time.Duration
	for at := time.Duration(0); at < 50*ms; at += 5 * ms {
		if l.send(at, 8) == LostDark {
			dark = append(dark, at)
		}
	}
	require.Equal(t, []time.Duration{10 * ms, 15 * ms, 30 * ms, 35 * ms}, dark)
	require.Len(t, l.drain(), 6, "what was under way when it went dark arrives")
	require.EqualValues(t, 4, l.link.Stats().LostDark)
	l.link.Dark(Epoch.Add(time.Hour), Epoch.Add(2*time.Hour))
	require.Len(t, l.link.dark, 1, "past ones are forgotten")
}

// Packets that are in the queue when the path is interrupted are lost as they leave it.
func TestLinkDarkBehindQueue(t *testing.T) {
	l := newLinkTest(t, Config{Rate: 8e6, Overhead: -1}) // 1,000 B take 1 ms
	l.link.Dark(Epoch.Add(2*ms), Epoch.Add(4*ms))
	var fates []Fate
	for range 5 {
		fates = append(fates, l.send(0, 1000))
	}
	require.Equal(t, []Fate{Carried, LostDark, LostDark, Carried, Carried}, fates)
}

func TestLinkTimeRunsBack(t *testing.T) {
	l := newLinkTest(t, Config{Delay: 10 * ms})
	l.send(10*ms, 4)
	l.send(5*ms, 4)
	require.Equal(t, []got{{0, 20 * ms, 4}, {1, 20 * ms, 4}}, l.drain())
}

func TestLinkInFlightLimit(t *testing.T) {
	l := NewLink(Config{Delay: time.Hour})
	big := make([]byte, maxInFlight/4)
	for range 4 {
		require.Equal(t, Carried, l.Send(Epoch, big))
	}
	require.Equal(t, LostQueue, l.Send(Epoch, big))
	_, ok := l.Deliver(Epoch.Add(time.Hour))
	require.True(t, ok)
	require.Equal(t, Carried, l.Send(Epoch, big))
}

// everything is a Config with every impairment.
func everything(seed uint64) Config {
	return Config{
		Delay: 20 * ms, Jitter: 5 * ms, Loss: 0.05, Burst: Bursts(0.05, 4), Rate: 10e6, Queue: 20_000,
		Duplicate: 0.05, Reorder: 0.05, MTU: 1200, Seed: seed,
	}
}

// journal sends packets of many sizes and returns each fate and arrival.
func journal(t *testing.T, cfg Config) (fates []Fate, arrivals []got) {
	l := newLinkTest(t, cfg)
	l.link.Dark(Epoch.Add(time.Second), Epoch.Add(1200*ms))
	l.link.SetMTU(Epoch.Add(2*time.Second), 900)
	for i := range 5000 {
		fates = append(fates, l.send(time.Duration(i)*400*time.Microsecond, 4+i*37%1300))
	}
	return fates, l.drain()
}

func TestLinkSameSeedSameFate(t *testing.T) {
	seed := testkit.Seed(t)
	fates, arrivals := journal(t, everything(seed))
	again, arrivalsAgain := journal(t, everything(seed))
	require.True(t, slices.Equal(fates, again))
	require.True(t, slices.Equal(arrivals, arrivalsAgain))
	for _, want := range []Fate{Carried, LostQueue, LostMTU, LostDark, Lost, LostBurst} {
		require.True(t, slices.Contains(fates, want), "the journal has a packet that is %v", want)
	}
	other, _ := journal(t, everything(seed+1))
	require.False(t, slices.Equal(fates, other))
}

// The random loss of the nth packet is the same whatever else is switched on,
// so that runs can be compared.
func TestLinkFatesAreIndependent(t *testing.T) {
	seed := testkit.Seed(t)
	plain := NewLink(Config{Loss: 0.3, Seed: seed})
	cfg := everything(seed)
	cfg.Loss, cfg.Queue, cfg.MTU, cfg.Burst = 0.3, maxQueue, 0, Burst{}
	rich := NewLink(cfg)
	for i := range 10_000 {
		require.Equal(t, plain.Send(Epoch, []byte{1}), rich.Send(Epoch, []byte{1}), "packet %d", i)
	}
}

func TestLinkStreamsDiffer(t *testing.T) {
	a, b := newLink(Config{Loss: 0.5}, 1), newLink(Config{Loss: 0.5}, 2)
	same := 0
	for range 10_000 {
		if a.Send(Epoch, nil) == b.Send(Epoch, nil) {
			same++
		}
	}
	require.InDelta(t, 5000, same, 300)
}

func TestLinkSendDoesNotAllocate(t *testing.T) {
	l := NewLink(Config{Delay: 10 * ms, Jitter: ms, Rate: 100e6, Loss: 0.01, Reorder: 0.01, Burst: Bursts(0.01, 3)})
	now, p := Epoch, make([]byte, 1200)
	step := func() {
		l.Send(now, p)
		now = now.Add(ms)
		for {
			if _, ok := l.Deliver(now); !ok {
				return
			}
		}
	}
	for range 1000 {
		step()
	}
	require.Zero(t, testkit.Allocs(1000, step))
}

func TestFateString(t *testing.T) {
	require.Equal(t, "carried", Carried.String())
	require.Equal(t, "lost in a burst", LostBurst.String())
	require.Equal(t, "unknown fate", Fate(99).String())
}

func TestStatsAdd(t *testing.T) {
	fates, _ := journal(t, everything(1))
	require.NotEmpty(t, fates)
	l := newLinkTest(t, everything(1))
	for range 1000 {
		l.send(0, 1000)
	}
	s := l.link.Stats()
	s.Overrun = 3
	sum := s.Add(s)
	require.Equal(t, 2*s.Packets, sum.Packets)
	require.Equal(t, 2*s.Dropped(), sum.Dropped())
	require.Equal(t, s, s.Add(Stats{}))
}

func BenchmarkLink(b *testing.B) {
	for name, cfg := range map[string]Config{
		"jitter": {Delay: 25 * ms, Jitter: ms, Rate: 100e6, Loss: 0.01},
		// Each packet overtakes thousands: in one list that is kept in order
		// that took 20 times as long.
		"every other late": {Delay: 10 * ms, Alternate: 100 * ms, Rate: 1e9, Queue: 1 << 24},
	} {
		b.Run(name, func(b *testing.B) {
			l := NewLink(cfg)
			now, p := Epoch, make([]byte, 1200)
			b.ReportAllocs()
			for b.Loop() {
				l.Send(now, p)
				now = now.Add(time.Duration(float64(8*len(p)) / float64(cfg.Rate) * 1e9))
				for {
					if _, ok := l.Deliver(now); !ok {
						break
					}
				}
			}
		})
	}
}

// Clumps keep order and lose nothing: packets wait for the next multiple.
func TestClumps(t *testing.T) {
	l := NewLink(Config{Delay: 7 * time.Millisecond, Clump: 5 * time.Millisecond})
	for i := range 20 {
		require.Equal(t, Carried, l.Send(Epoch.Add(time.Duration(i)*time.Millisecond), []byte{byte(i)}))
	}
	for i := range 20 {
		at, ok := l.NextTimeout()
		require.True(t, ok)
		require.Zero(t, at.Sub(at.Truncate(5*time.Millisecond)))
		wait := at.Sub(Epoch.Add(time.Duration(i)*time.Millisecond + 7*time.Millisecond))
		require.GreaterOrEqual(t, wait, time.Duration(0))
		require.Less(t, wait, 5*time.Millisecond)
		packet, ok := l.Deliver(at)
		require.True(t, ok)
		require.Equal(t, []byte{byte(i)}, packet)
	}
}

func TestAlternatePacketsOvertake(t *testing.T) {
	l := NewLink(Config{Delay: 10 * time.Millisecond, Alternate: 5 * time.Millisecond})
	for i := range 4 {
		l.Send(Epoch.Add(time.Duration(i)*time.Millisecond), []byte{byte(i)})
	}
	require.Equal(t, []byte{0, 2, 1, 3}, drained(l))
}

func TestLossOfSomeSizes(t *testing.T) {
	l := NewLink(Config{Loss: 1, LossMin: 2, LossMax: 3})
	for size := 1; size <= 4; size++ {
		want := Carried
		if size == 2 || size == 3 {
			want = Lost
		}
		require.Equal(t, want, l.Send(Epoch, make([]byte, size)), "%d bytes", size)
	}
}

func TestSetConfig(t *testing.T) {
	l := NewLink(Config{Delay: time.Second})
	l.Send(Epoch, []byte{0})
	l.SetConfig(Config{Delay: 2 * time.Second, Rate: 8000, Overhead: -1})
	l.Send(Epoch, make([]byte, 1000))
	at, ok := l.NextTimeout()
	require.True(t, ok)
	require.Equal(t, Epoch.Add(time.Second), at, "what is under way keeps its fate")
	_, ok = l.Deliver(at)
	require.True(t, ok)
	at, _ = l.NextTimeout()
	require.Equal(t, Epoch.Add(3*time.Second), at)
	l.SetConfig(Config{})
	l.Send(Epoch.Add(4*time.Second), []byte{7})
	require.Len(t, drained(l), 2)
}

// A run of losses ends when bursts are switched off, because nothing else would ever end it.
func TestBurstsSwitchedOff(t *testing.T) {
	bursts := Config{Burst: Burst{Enter: 1, Leave: 1e-9}}
	l := NewLink(bursts)
	require.Equal(t, LostBurst, l.Send(Epoch, nil))
	l.SetConfig(bursts)
	require.Equal(t, LostBurst, l.Send(Epoch, nil))
	l.SetConfig(Config{})
	require.Equal(t, Carried, l.Send(Epoch, nil))
}

// drained returns the first bytes of all packets in flight, in the order of arrival.
func drained(l *Link) (first []byte) {
	for at, ok := l.NextTimeout(); ok; at, ok = l.NextTimeout() {
		packet, _ := l.Deliver(at)
		first = append(first, packet[0])
	}
	return first
}

// TestBurstsOfASize: runs of losses lose packets of the sizes that may be lost.
func TestBurstsOfASize(t *testing.T) {
	l := NewLink(Config{Burst: Bursts(0.5, 3), LossMin: 1000})
	lost := map[int]int{}
	for range 1000 {
		for _, size := range []int{100, 1200} {
			if l.Send(time.Unix(0, 0), make([]byte, size)) != Carried {
				lost[size]++
			}
		}
	}
	require.Zero(t, lost[100])
	require.Greater(t, lost[1200], 300)
}
