package pace_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quivernet/quiver/internal/netsim"
)

// A busy is a transfer whose ends share their machines: each sleeps for a fifth
// of the time, and then neither sends nor receives.
type busy struct {
	*bulk
	here, there sleeper
	now         time.Time
}

// A sleeper sleeps now and then; what arrives meanwhile waits.
type sleeper struct {
	seed uint64
	nap  time.Duration // the longest
	mail [][]byte
}

// wakes returns when the sleeper runs next, which is now if it does not sleep.
func (s *sleeper) wakes(now time.Time) time.Time {
	length := 5 * s.nap / 2
	slot := now.Sub(netsim.Epoch) / length
	random := rand.New(rand.NewPCG(s.seed, uint64(slot)))
	nap := time.Duration(random.Int64N(int64(s.nap)))
	from := netsim.Epoch.Add(slot*length + time.Duration(random.Int64N(int64(length-nap))))
	if now.Before(from) || !now.Before(from.Add(nap)) {
		return now
	}
	return from.Add(nap)
}

func (s *sleeper) sleeps(now time.Time) bool { return s.wakes(now).After(now) }

// read hands over the mail, unless the sleeper sleeps.
func (s *sleeper) read(now time.Time, open func(now time.Time, packet []byte)) {
	if s.sleeps(now) {
		return
	}
	for _, packet := range s.mail {
		open(now, packet)
	}
	s.mail = s.mail[:0]
}

func (b *busy) answer(_ time.Time, packet []byte) { b.here.mail = append(b.here.mail, packet) }
func (b *busy) arrive(_ time.Time, packet []byte) { b.there.mail = append(b.there.mail, packet) }

func (b *busy) run(now time.Time) {
	b.now = now
	b.there.read(now, b.bulk.arrive)
	b.here.read(now, b.bulk.answer)
	if !b.here.sleeps(now) {
		b.bulk.run(now)
	}
}

func (b *busy) poll(now time.Time) []byte {
	if b.here.sleeps(now) {
		return nil
	}
	return b.bulk.poll(now)
}

func (b *busy) reply(now time.Time) []byte {
	if wakes := b.there.wakes(now); wakes.After(now) {
		b.ackAt = later(b.ackAt, wakes)
		return nil
	}
	return b.bulk.reply(now)
}

func (b *busy) wait() time.Time {
	next := b.here.wakes(b.now)
	if next.Equal(b.now) {
		next = b.bulk.wait()
	} else if b.unacked > 0 {
		next = earlier(next, b.ackAt)
	}
	if len(b.there.mail) > 0 {
		next = earlier(next, b.there.wakes(b.now))
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Ends on busy machines run late for a fifth of the time. The sender must make up for that,
// or its own lateness would count as the path's rate: 4 ms made 64 Mbit/s of 93. Sleeps of 20
// ms look like a queue in which random losses happen, and cause a false alarm now and then.
func TestBusyEnds(t *testing.T) {
	survey(t, func(seed uint64) (f []figure) {
		for _, c := range []struct {
			nap  time.Duration
			part float64
		}{{4 * ms, 0.7}, {20 * ms, 0.15}} {
			s := newStage(link{100e6, 100 * ms, 0.01}, seed)
			s.flows = []flow{&busy{bulk: s.bulk, here: sleeper{seed: seed, nap: c.nap}, there: sleeper{seed: seed + 1, nap: c.nap}}}
			s.goodput(2 * time.Second)
			q := watchQueue(s.world, ms)
			f = append(f, atLeast(fmt.Sprintf("naps up to %v, Mbit/s", c.nap), s.goodput(12*time.Second), c.part*100*useful))
			f = append(f, atMost(fmt.Sprintf("naps up to %v, queue, ms", c.nap), q.mean().Seconds()*1e3, 12))
		}
		return f
	})
}
