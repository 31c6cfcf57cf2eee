package pace_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/pace"
)

// stage is a transfer alone on a path that changes.
type stage struct {
	*world
	there, back *path
	ctl         *pace.Controller
	bulk        *bulk
}

// newStage begins a transfer from a train that was right.
func newStage(l link, seed uint64) *stage {
	s := &stage{there: newPath(float64(l.rate), l.rtt, l.loss, seed), back: newPath(float64(l.rate), l.rtt, l.loss, seed+1), ctl: l.joined(1)}
	s.world = newWorld(s.there, s.back)
	s.bulk = newBulk(0, endless, s.ctl, netsim.Epoch.Add(ms))
	s.flows = []flow{s.bulk}
	return s
}

// at changes something at a time; in the order of times.
func (s *stage) at(when time.Duration, do func()) { s.plan = append(s.plan, event{when, do}) }

// goodput runs until a time and returns what arrived per second since the last call, in Mbit/s of payload.
func (s *stage) goodput(until time.Duration) float64 {
	from, before := s.since(), s.bulk.received
	s.until(until, s.done)
	return float64(s.bulk.received-before) * 8 / (until - from).Seconds() / 1e6
}

// share of a link's rate that payload can have.
const useful = float64(payload) / charged

func TestRateChanges(t *testing.T) {
	s := newStage(link{10e6, 50 * ms, 0.01}, sceneSeed(t))
	s.at(5*time.Second, func() { s.there.rate = 2e6 })
	s.at(12*time.Second, func() { s.there.rate = 10e6 })
	t.Logf("# 10 Mbit/s, then 2 from 5 s, then 10 from 12 s")
	s.goodput(2 * time.Second)
	assert.Greater(t, s.goodput(5*time.Second), 0.93*10*useful)
	s.goodput(7 * time.Second)
	q := watchQueue(s.world, 10*ms)
	slow := s.goodput(12 * time.Second)
	t.Logf("2 Mbit/s: %.2f, queue mean %v most %v", slow, q.mean(), q.most())
	assert.Greater(t, slow, 0.88*2*useful)
	assert.Less(t, q.mean(), 3*12*ms)
	rise := s.goodput(13500 * ms)
	after := s.goodput(16 * time.Second)
	t.Logf("10 Mbit/s again: %.2f in the first 1.5 s, then %.2f", rise, after)
	assert.Greater(t, after, 0.9*10*useful)
}

func TestRoundTripChanges(t *testing.T) {
	s := newStage(link{20e6, 50 * ms, 0}, sceneSeed(t))
	longer := func(d time.Duration) func() { return func() { s.there.delay, s.back.delay = d/2, d/2 } }
	s.at(5*time.Second, longer(100*ms))
	s.at(25*time.Second, longer(30*ms))
	t.Logf("# 50 ms, then 100 ms from 5 s, then 30 ms from 25 s")
	s.goodput(5 * time.Second)
	during := s.goodput(15 * time.Second)
	longerRate := s.goodput(25 * time.Second)
	s.goodput(26 * time.Second)
	shorterRate := s.goodput(35 * time.Second)
	t.Logf("100 ms: %.1f Mbit/s in the first 10 s, %.1f in the next; 30 ms: %.1f", during, longerRate, shorterRate)
	assert.Greater(t, during, 0.5*20*useful)
	assert.Greater(t, longerRate, 0.85*20*useful)
	assert.Greater(t, shorterRate, 0.9*20*useful)
}

func TestPauses(t *testing.T) {
	s := newStage(link{20e6, 50 * ms, 0.01}, sceneSeed(t))
	t.Logf("# something to send in 100 ms of each 300 ms: the estimate stays")
	s.bulk.pause = func(now time.Time) bool { return now.Sub(netsim.Epoch)%(300*ms) > 100*ms }
	for i := range 40 {
		s.at(time.Duration(i)*300*ms, func() {})
	}
	s.goodput(12 * time.Second)
	assert.InEpsilon(t, 20e6/8, s.ctl.Estimate(), 0.15)
	s.bulk.pause = nil
	assert.Greater(t, s.goodput(14*time.Second), 0.88*20*useful)

	t.Logf("# nothing to send for 20 s: the old rate to begin with")
	s.bulk.pause = func(time.Time) bool { return true }
	s.goodput(34 * time.Second)
	s.bulk.pause = nil
	assert.Greater(t, s.goodput(35*time.Second), 0.8*20*useful)
}

func TestDarkPath(t *testing.T) {
	s := newStage(link{20e6, 50 * ms, 0.01}, sceneSeed(t))
	s.at(3*time.Second, func() { s.there.dark = true })
	s.at(8*time.Second, func() { s.there.dark = false })
	s.goodput(3 * time.Second)
	s.goodput(4 * time.Second)
	sent := len(s.bulk.sent)
	s.goodput(8 * time.Second)
	t.Logf("%d packets in 4 s of darkness, %v", len(s.bulk.sent)-sent, s.ctl.State())
	assert.Less(t, len(s.bulk.sent)-sent, 70, "a packet a PTO of 78 ms or more")
	assert.Equal(t, pace.Dark, s.ctl.State())
	s.goodput(9 * time.Second)
	after := s.goodput(11 * time.Second)
	t.Logf("after: %.1f Mbit/s, loss %.3f", after, s.ctl.Loss())
	assert.Greater(t, after, 0.9*20*useful)
	assert.Less(t, s.ctl.Loss(), 0.05)

	t.Logf("# dark for more than 10 s: stopped")
	s.there.dark = true
	s.goodput(30 * time.Second)
	assert.Equal(t, pace.Stopped, s.ctl.State())
}

func TestRandomLoss(t *testing.T) {
	seed := sceneSeed(t)
	for _, l := range []link{{20e6, 50 * ms, 0.02}, {20e6, 50 * ms, 0.05}, {20e6, 50 * ms, 0.10}, {100e6, 20 * ms, 0.10}, {5e6, 200 * ms, 0.10}} {
		s := newStage(l, seed)
		s.goodput(3 * time.Second)
		got := s.goodput(13 * time.Second)
		most := float64(l.rate) / 1e6 * useful * (1 - l.loss)
		t.Logf("%v: %.2f Mbit/s, %.3f of what the link passes; loss seen %.3f", l, got, got/most, s.ctl.Loss())
		assert.Greater(t, got, 0.87*most)
	}
}

// A queue too short to be seen as delay: what is over the rate is lost, and that loss is congestion.
func TestShallowQueue(t *testing.T) {
	seed := sceneSeed(t)
	for _, c := range []struct {
		link
		queue int
	}{{link{20e6, 50 * ms, 0}, 8 << 10}, {link{20e6, 50 * ms, 0.01}, 8 << 10}, {link{1e9, 200 * time.Microsecond, 0}, 128 << 10}, {link{2e9, 100 * time.Microsecond, 0}, 256 << 10}} {
		s := newStage(c.link, seed)
		s.there.queue = c.queue
		until := 6 * time.Second
		if c.rate > 1e8 {
			until = 1500 * ms
		}
		s.goodput(until / 3)
		sent, received := s.bulk.bytes, s.bulk.received
		got := s.goodput(until)
		lost := 1 - float64(s.bulk.received-received)/(float64(s.bulk.bytes-sent)*payload/sealed)
		t.Logf("%v, queue %d KiB: %.3f of the link, lost %.3f, %v", c.link, c.queue>>10, got/(float64(c.rate)/1e6*useful), lost, s.ctl.State())
		assert.Greater(t, got, 0.75*float64(c.rate)/1e6*useful)
		assert.Less(t, lost, 0.05+c.loss)
	}
}

func TestWrongTrain(t *testing.T) {
	seed := sceneSeed(t)
	for _, factor := range []float64{0.25, 4} {
		l := link{20e6, 50 * ms, 0.01}
		w := l.world(seed)
		b := newBulk(0, endless, l.joined(factor), netsim.Epoch.Add(ms))
		w.flows = []flow{b}
		require.False(t, w.until(time.Second, w.done))
		from := b.received
		w.until(3*time.Second, w.done)
		got := float64(b.received-from) * 8 / 2e6
		t.Logf("train x%g: %.1f Mbit/s from 1 s to 3 s", factor, got)
		assert.Greater(t, got, 0.85*20*useful)
	}
}

// Jitter is not a queue.
func TestJitter(t *testing.T) {
	seed := sceneSeed(t)
	for _, jitter := range []time.Duration{2 * ms, 10 * ms} {
		s := newStage(link{20e6, 50 * ms, 0.01}, seed)
		s.there.jitter, s.back.jitter = jitter, jitter
		s.goodput(3 * time.Second)
		got := s.goodput(13 * time.Second)
		t.Logf("jitter %v: %.1f Mbit/s", jitter, got)
		assert.Greater(t, got, 0.7*20*useful)
	}
}

// Play's packets pass the same bottleneck: bulk leaves them their rate.
func TestPlay(t *testing.T) {
	s := newStage(link{20e6, 50 * ms, 0}, sceneSeed(t))
	s.ctl.Play(5e6 / 8)
	play := &player{rate: 5e6, size: 400}
	s.flows = append(s.flows, play)
	s.goodput(3 * time.Second)
	q := watchQueue(s.world, 5*ms)
	got := s.goodput(13 * time.Second)
	t.Logf("beside 5 Mbit/s of play: %.1f Mbit/s, queue mean %v; estimate %.1f Mbit/s", got, q.mean(), s.ctl.Estimate()*8/1e6)
	assert.Greater(t, got, 0.88*15*useful)
	assert.Less(t, q.mean(), 8*ms)
}

// player sends packets of a size at a rate and hears nothing.
type player struct {
	rate float64 // bit/s
	size int
	next time.Time
}

func (p *player) arrive(time.Time, []byte) {}
func (p *player) answer(time.Time, []byte) {}
func (p *player) run(time.Time)            {}
func (p *player) reply(time.Time) []byte   { return nil }
func (p *player) wait() time.Time          { return p.next }
func (p *player) done() bool               { return false }
func (p *player) poll(now time.Time) []byte {
	if now.Before(p.next) {
		return nil
	}
	p.next = now.Add(time.Duration(float64(p.size+netsim.UDPOverhead) * 8e9 / p.rate))
	return frame(1, 0, p.size)
}
