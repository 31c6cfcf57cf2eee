package pace_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
)

// A stage is a transfer alone on a path that changes.
type stage struct {
	*world
	there, back *path
	ctl         *pace.Controller
	bulk        *bulk
}

// newStage returns a transfer that begins with a train that was right.
func newStage(l link, seed uint64) *stage {
	s := &stage{there: newPath(float64(l.rate), l.rtt, l.loss, seed), back: newPath(float64(l.rate), l.rtt, l.loss, seed+1), ctl: l.joined(1)}
	s.world = newWorld(s.there, s.back)
	s.bulk = newBulk(0, endless, s.ctl, curtain(seed))
	s.flows = []flow{s.bulk}
	return s
}

// at schedules a change at a time; it must be called in the order of times.
func (s *stage) at(when time.Duration, do func()) { s.plan = append(s.plan, event{when, do}) }

// goodput runs until a time and returns what has arrived per second since the
// last call, in Mbit/s of payload.
func (s *stage) goodput(until time.Duration) float64 {
	from, before := s.since(), s.bulk.received
	s.until(until, s.done)
	return float64(s.bulk.received-before) * 8 / (until - from).Seconds() / 1e6
}

// share is the part of a link's rate that payload can have.
const useful = float64(payload) / charged

func TestRateChanges(t *testing.T) {
	t.Logf("# 10 Mbit/s, then 2 from 5 s, then 10 from 12 s")
	survey(t, func(seed uint64) []figure {
		s := newStage(link{10e6, 50 * ms, 0.01}, seed)
		s.at(5*time.Second, func() { s.there.rate = 2e6 })
		s.at(12*time.Second, func() { s.there.rate = 10e6 })
		s.goodput(2 * time.Second)
		before := s.goodput(5 * time.Second)
		s.goodput(7 * time.Second)
		q := watchQueue(s.world, 10*ms)
		slow := s.goodput(12 * time.Second)
		mean := q.mean()
		rise := s.goodput(13500 * ms)
		return []figure{
			atLeast("10 Mbit/s", before, 0.93*10*useful),
			atLeast("2 Mbit/s", slow, 0.88*2*useful),
			atMost("queue at 2 Mbit/s, ms", mean.Seconds()*1e3, 3*12),
			atLeast("10 Mbit/s again, first 1.5 s", rise, 0.4*10*useful),
			atLeast("10 Mbit/s again, then", s.goodput(20*time.Second), 0.92*10*useful),
		}
	}, 7562334474743714707, 736163921232202498, 15179392142178406566)
}

func TestRoundTripChanges(t *testing.T) {
	t.Logf("# 50 ms, then 100 ms from 5 s, then 30 ms from 25 s")
	survey(t, func(seed uint64) []figure {
		s := newStage(link{20e6, 50 * ms, 0}, seed)
		longer := func(d time.Duration) func() { return func() { s.there.delay, s.back.delay = d/2, d/2 } }
		s.at(5*time.Second, longer(100*ms))
		s.at(25*time.Second, longer(30*ms))
		s.goodput(5 * time.Second)
		during := s.goodput(15 * time.Second)
		after := s.goodput(25 * time.Second)
		s.goodput(26 * time.Second)
		return []figure{
			atLeast("100 ms, first 10 s, Mbit/s", during, 0.5*20*useful),
			atLeast("100 ms, then", after, 0.85*20*useful),
			atLeast("30 ms", s.goodput(35*time.Second), 0.9*20*useful),
		}
	})
}

// Over a route that has become longer the whole delay looks like a competitor's queue
// at first. In the end it was our own queue, which grew as long as nothing was lost.
func TestLongerRoute(t *testing.T) {
	t.Logf("# 50 ms, then 100 ms from 5 s, and room for a second of queue")
	survey(t, func(seed uint64) []figure {
		s := newStage(link{2e6, 50 * ms, 0}, seed)
		s.there.queue = 250_000
		s.at(5*time.Second, func() { s.there.delay, s.back.delay = 50*ms, 50*ms })
		s.goodput(35 * time.Second)
		q := watchQueue(s.world, 10*ms)
		return []figure{
			atLeast("from 30 s after, of the link", s.goodput(45*time.Second)/2/useful, 0.9),
			atMost("queue, which was 300 and more, ms", q.mean().Seconds()*1e3, 100),
		}
	})
}

// TestLongerRouteWithLoss: random losses restarted the count of unmoved rounds, and
// one transfer in six to ten had a tenth of the path permanently. Of a hundred with 1
// % lost the median has 0.96 in these ten seconds, and the worst two 0.26 and 0.31.
func TestLongerRouteWithLoss(t *testing.T) {
	for _, loss := range []float64{0.01, 0.05} {
		t.Logf("# 50 ms, then 150 ms from 3 s, %g lost", loss)
		survey(t, func(seed uint64) []figure {
			s := newStage(link{20e6, 50 * ms, loss}, seed)
			s.at(3*time.Second, func() { s.there.delay, s.back.delay = 75*ms, 75*ms })
			s.goodput(8 * time.Second)
			return []figure{atLeast("from 5 s after, of the link", s.goodput(18*time.Second)/20/useful/(1-loss), 0.5)}
		})
	}
}

// TestLongerRouteInJitter: a route that became longer, jitter and half a
// percent of losses together looked like a rival, and transfers had 0.08 to
// 0.22 of these paths for many seconds. One in 120 still has less than half. If
// only the way there becomes longer, in less jitter, they had 0.2 to 0.7.
func TestLongerRouteInJitter(t *testing.T) {
	for _, row := range []struct {
		rate          int64
		before, after time.Duration
		back, jitter  time.Duration // from then on
	}{
		{20e6, 30 * ms, 45 * ms, 22 * ms, 4 * ms}, {20e6, 40 * ms, 100 * ms, 50 * ms, 4 * ms},
		{50e6, 30 * ms, 45 * ms, 22 * ms, 4 * ms}, {50e6, 40 * ms, 100 * ms, 50 * ms, 4 * ms},
		{20e6, 40 * ms, 100 * ms, 20 * ms, 2 * ms}, {50e6, 30 * ms, 45 * ms, 15 * ms, 2 * ms},
	} {
		t.Logf("# %d Mbit/s, %v, then %v, of that %v back, and jitter of %v from 4 s", row.rate/1e6, row.before, row.after, row.back, row.jitter)
		survey(t, func(seed uint64) []figure {
			var got [5]float64
			for i := range got {
				s := newStage(link{row.rate, row.before, 0.005}, seed+uint64(i))
				s.at(4*time.Second, func() {
					s.there.delay, s.back.delay = row.after-row.back, row.back
					s.there.jitter, s.back.jitter = row.jitter, row.jitter
				})
				s.goodput(5 * time.Second)
				got[i] = s.goodput(9*time.Second) * 1e6 / float64(row.rate) / useful
			}
			slices.Sort(got[:])
			return []figure{atLeast("from 1 s after, of the link, median of five", got[2], 0.6)}
		})
	}
}

// TestUploadOnTheWayBack: acks wait after somebody's upload, for up to a fifth
// of a second. The window, which spanned the least round trip, left a third to
// three quarters of the path idle, although the queue there was empty.
func TestUploadOnTheWayBack(t *testing.T) {
	for _, l := range []link{{2e6, 30 * ms, 0}, {8e6, 30 * ms, 0}, {30e6, 10 * ms, 0}, {30e6, 80 * ms, 0.001}} {
		t.Logf("# %v, and a queue on the way back that grows to 200 ms over 4 s and falls by a third", l)
		survey(t, func(seed uint64) []figure {
			s := newStage(l, seed)
			queue := 60 * ms
			for at := 2 * time.Second; at < 16*time.Second; at += 50 * ms {
				s.at(at, func() {
					if queue += 2500 * time.Microsecond; queue > 200*ms {
						queue = queue * 2 / 3
					}
					s.back.delay = l.rtt/2 + queue
				})
			}
			s.goodput(5 * time.Second)
			q := watchQueue(s.world, 10*ms)
			got := s.goodput(16*time.Second) * 1e6 / float64(l.rate) / useful
			return []figure{atLeast("of the link", got, 0.8), atMost("queue, ms", q.mean().Seconds()*1e3, 25)}
		}, 3)
	}
}

func TestPauses(t *testing.T) {
	t.Logf("# something to send in 100 ms of each 300 ms: the estimate stays; nothing for 20 s: the old rate to begin with")
	survey(t, func(seed uint64) (f []figure) {
		s := newStage(link{20e6, 50 * ms, 0.01}, seed)
		s.bulk.pause = func(now time.Time) bool { return now.Sub(netsim.Epoch)%(300*ms) > 100*ms }
		for i := range 40 {
			s.at(time.Duration(i)*300*ms, func() {})
		}
		s.goodput(12 * time.Second)
		f = append(f, figure{"estimate after pauses, Mbit/s", s.ctl.Estimate() * 8 / 1e6, 0.85 * 20, 1.15 * 20})
		s.bulk.pause = nil
		f = append(f, atLeast("after pauses, Mbit/s", s.goodput(14*time.Second), 0.88*20*useful))
		s.bulk.pause = func(time.Time) bool { return true }
		s.goodput(34 * time.Second)
		s.bulk.pause = nil
		return append(f, atLeast("after a long pause, Mbit/s", s.goodput(35*time.Second), 0.8*20*useful))
	})
}

func TestDarkPath(t *testing.T) {
	survey(t, func(seed uint64) []figure {
		s := newStage(link{20e6, 50 * ms, 0.01}, seed)
		s.at(3*time.Second, func() { s.there.dark = true })
		s.at(8*time.Second, func() { s.there.dark = false })
		s.goodput(3 * time.Second)
		s.goodput(4 * time.Second)
		sent := len(s.bulk.sent)
		s.goodput(8 * time.Second)
		sent = len(s.bulk.sent) - sent
		assert.Equal(t, pace.Dark, s.ctl.State())
		s.goodput(9 * time.Second)
		after := s.goodput(19 * time.Second)
		loss := s.ctl.Loss()
		s.there.dark = true
		s.goodput(38 * time.Second)
		assert.Equal(t, pace.Stopped, s.ctl.State(), "dark for more than 10 s")
		return []figure{
			atMost("packets in 4 s of darkness, one a PTO of 78 ms or more", float64(sent), 70),
			atLeast("after darkness, Mbit/s", after, 0.9*20*useful),
			atMost("loss after darkness", loss, 0.05),
		}
	})
}

func TestRandomLoss(t *testing.T) {
	survey(t, func(seed uint64) (f []figure) {
		for _, c := range []struct {
			link
			least float64
		}{{link{20e6, 50 * ms, 0.02}, 0.9}, {link{20e6, 50 * ms, 0.05}, 0.9}, {link{20e6, 50 * ms, 0.10}, 0.8}, {link{100e6, 20 * ms, 0.10}, 0.8}, {link{5e6, 200 * ms, 0.10}, 0.4}} {
			s := newStage(c.link, seed)
			s.goodput(3 * time.Second)
			f = append(f, atLeast(c.String(), s.goodput(13*time.Second)/(float64(c.rate)/1e6*useful*(1-c.loss)), c.least))
		}
		return f
	}, 5231798089655432713)
}

// A queue too short to be seen as delay: what exceeds the rate is lost, and that loss
// is congestion. With two of these seeds a third and a half of the link was used when a
// look that found more was followed by a start, which lost a hundred packets and more.
func TestShallowQueue(t *testing.T) {
	survey(t, func(seed uint64) (f []figure) {
		for _, c := range []struct {
			link
			queue int
		}{{link{20e6, 50 * ms, 0}, 8 << 10}, {link{20e6, 50 * ms, 0.01}, 8 << 10}, {link{1e9, 200 * time.Microsecond, 0}, 128 << 10}, {link{2e9, 100 * time.Microsecond, 0}, 256 << 10}} {
			s := newStage(c.link, seed)
			s.there.queue = c.queue
			until := 6 * time.Second
			if c.rate > 1e8 {
				until = 600 * ms
			}
			s.goodput(until / 3)
			sent, received := s.bulk.bytes, s.bulk.received
			got := s.goodput(until)
			lost := 1 - float64(s.bulk.received-received)/(float64(s.bulk.bytes-sent)*payload/sealed)
			name := fmt.Sprintf("%v, queue %d KiB", c.link, c.queue>>10)
			f = append(f, atLeast(name+": of the link", got/(float64(c.rate)/1e6*useful), 0.75-15*c.loss), atMost(name+": lost", lost, 0.05+c.loss))
		}
		return f
	}, 6033111265343050497, 5050)
}

func TestWrongTrain(t *testing.T) {
	survey(t, func(seed uint64) (f []figure) {
		for _, factor := range []float64{0.25, 4} {
			l := link{20e6, 50 * ms, 0.01}
			w := l.world(seed)
			b := newBulk(0, endless, l.joined(factor), curtain(seed))
			w.flows = []flow{b}
			w.until(time.Second, w.done)
			from := b.received
			w.until(3*time.Second, w.done)
			f = append(f, atLeast(fmt.Sprintf("train x%g, from 1 s to 3 s", factor), float64(b.received-from)*8/2e6, 0.85*20*useful))
		}
		return f
	})
}

// Jitter is not a queue, and losses in it are not a competitor's: in one run of
// fifty they were taken for that, as long as the run lasted.
func TestJitter(t *testing.T) {
	survey(t, func(seed uint64) (f []figure) {
		for _, jitter := range []time.Duration{2 * ms, 10 * ms} {
			s := newStage(link{20e6, 50 * ms, 0.01}, seed)
			s.there.jitter, s.back.jitter = jitter, jitter
			s.goodput(3 * time.Second)
			f = append(f, atLeast(fmt.Sprintf("jitter %v, Mbit/s", jitter), s.goodput(13*time.Second), 0.6*20*useful))
		}
		return f
	}, 13587954384158338512, 1296, 1590)
}

// In these runs losses in jitter were taken for a competitor's again and again,
// and 6 to 8 % of the link was used. 2 to 5 in a hundred runs still sink, so a
// change elsewhere may make one of these do so.
func TestLossInJitterIsNoRival(t *testing.T) {
	var sunk []uint64
	for _, seed := range []uint64{1034, 1060, 1100, 1164, 1240, 1246, 1364, 1392, 1464} {
		s := newStage(link{20e6, 50 * ms, 0.03}, seed)
		s.there.jitter, s.back.jitter = 5*ms, 5*ms
		s.goodput(3 * time.Second)
		if s.goodput(13*time.Second) < 0.6*20*useful {
			sunk = append(sunk, seed)
		}
	}
	assert.LessOrEqual(t, len(sunk), 1, "%v", sunk)
}

// TestQueueBehindJitter: jitter that begins looks like a rival, which the controller then
// seemed to see in the queue that it had made itself. In 14 of these 48 runs that was
// still full long after the jitter had ended, and play waits in it for 100 to 260 ms.
func TestQueueBehindJitter(t *testing.T) {
	var full []string
	for _, l := range []link{{2e6, 34 * ms, 0}, {2e6, 60 * ms, 0}, {5e6, 60 * ms, 0}} {
		for seed := range uint64(16) {
			s := newStage(l, seed+1)
			s.at(5*time.Second, func() { s.there.jitter, s.back.jitter = 50*ms, 50*ms })
			s.at(13*time.Second, func() { s.there.jitter, s.back.jitter = 0, 0 })
			s.goodput(25 * time.Second)
			q := watchQueue(s.world, 10*ms)
			s.goodput(40 * time.Second)
			if q.mean() > max(l.rtt/2, 8*time.Duration(charged*8e9/l.rate)) {
				full = append(full, fmt.Sprintf("%v, seed %d: %v", l, seed+1, q.mean()))
			}
		}
	}
	assert.LessOrEqual(t, len(full), 4, "%v", full)
}
