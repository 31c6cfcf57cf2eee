package bunch

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// darkQueue is a path that loses everything for a while, with a carrier like quic-go. Datagrams
// are sent and lost as long as its window allows. Later ones wait in order, and are sent when
// the path is back.
type darkQueue struct {
	*pair
	dark    bool
	window  int
	sent    [2]int // while dark
	waiting [2][][]byte
}

func newDarkQueue(p *pair, window int) *darkQueue {
	q := &darkQueue{pair: p, window: window}
	p.drop = func(from int, b []byte) bool {
		if q.dark {
			if q.sent[from]++; q.sent[from] > window {
				q.waiting[from] = append(q.waiting[from], b)
			}
		}
		return q.dark
	}
	return q
}

// light ends the outage.
func (q *darkQueue) light() {
	q.dark, q.sent = false, [2]int{}
	for from := range q.waiting {
		for _, b := range q.waiting[from] {
			q.put(from, b)
		}
		q.waiting[from] = nil
	}
}

// beats is play at 30 Hz in both directions: in each tick, a reliable and an unreliable message
// with their number and time.
type beats struct {
	*pair
	channels [2]uint64
	next     uint64
	reliable [2]uint64 // the next one to arrive at an end
	came     [2]map[uint64]time.Duration
}

func newBeats(p *pair) *beats {
	b := &beats{pair: p}
	for end := range b.channels {
		b.channels[end] = p.open(end, Normal)
		b.came[end] = make(map[uint64]time.Duration)
	}
	return b
}

func (b *beats) play(d time.Duration) {
	for end := b.now.Add(d); b.now.Before(end); {
		payload := binary.BigEndian.AppendUint64(nil, b.next)
		payload = binary.BigEndian.AppendUint64(payload, uint64(b.now.Sub(epoch)))
		b.next++
		for i, c := range b.ends {
			c.Cork(true)
			b.send(i, b.channels[i], Reliable, payload)
			b.send(i, b.channels[i], Unreliable, payload)
			c.Cork(false)
		}
		b.listen(33 * time.Millisecond)
	}
}

// listen records the age of each unreliable message when it arrives, and checks the order of
// the reliable ones.
func (b *beats) listen(d time.Duration) {
	for end, more := b.now.Add(d), true; more; {
		more = b.step(end)
		for i := range b.ends {
			for _, m := range b.take(i) {
				number := binary.BigEndian.Uint64(m.Payload)
				if m.Delivery == Reliable {
					require.Equal(b.t, b.reliable[i], number, "reliable messages stay in order")
					b.reliable[i]++
					continue
				}
				b.came[i][number] = b.now.Sub(epoch) - time.Duration(binary.BigEndian.Uint64(m.Payload[8:]))
			}
		}
	}
}

// TestLightIsSeenSoon: nothing waits in the carrier, and everything that was sent during the
// outage is lost. Play continues after the next probe, which is soon, however long the outage
// was.
func TestLightIsSeenSoon(t *testing.T) {
	for _, dark := range []time.Duration{300 * time.Millisecond, 500 * time.Millisecond, time.Second, 3 * time.Second} {
		p := newPair(t, Config{})
		q, b := newDarkQueue(p, 1<<30), newBeats(p)
		b.play(time.Second)
		q.dark = true
		b.play(dark)
		q.light()
		lit := p.now
		first := b.reliable
		for b.reliable[0] == first[0] || b.reliable[1] == first[1] {
			b.play(time.Millisecond)
		}
		require.LessOrEqual(t, p.now.Sub(lit), 300*time.Millisecond, "after %v", dark)
	}
}

// TestNothingStaleAfterDarkness: the path is out for three seconds. No unreliable message
// arrives that is much older than the time it takes to detect an outage, but those that were
// sent within that time before the path is back do, and no reliable one is lost.
func TestNothingStaleAfterDarkness(t *testing.T) {
	p := newPair(t, Config{})
	q, b := newDarkQueue(p, 12), newBeats(p)
	b.play(time.Second)
	q.dark = true
	b.play(3 * time.Second)
	last := b.next // sent during the outage
	q.light()
	b.play(2 * time.Second)
	b.listen(time.Second)
	for i := range b.ends {
		require.Equal(t, b.next, b.reliable[i])
		for number, age := range b.came[i] {
			require.LessOrEqual(t, age, 300*time.Millisecond, "message %d of %d", number, b.next)
		}
		for n := last; n < b.next; n++ {
			require.Contains(t, b.came[i], n, "sent in the light")
		}
	}
	p.settled()
}

// TestDarkHoldsWhatWasNeverSent: during an outage, only small probes are sent. A carrier that
// reports fates has a second to hand over to the other one.
func TestDarkHoldsWhatWasNeverSent(t *testing.T) {
	l := newLossTest(t, Config{})
	l.roundTrip()
	play := func() int {
		require.NoError(t, l.Send(l.channel, Reliable, pattern(100, 0)))
		require.NoError(t, l.Send(l.channel, Unreliable, pattern(100, 0)))
		return l.packets()
	}
	l.sendPackets(1)
	l.wait(l.outageAfter() - 1)
	l.packets()
	require.NotZero(t, play(), "one timeout is no darkness")
	l.wait(1)
	require.Zero(t, play())
	at, _ := l.NextTimeout()
	l.wait(at.Sub(l.at))
	require.Equal(t, 1, l.packets(), "a probe")
	require.Less(t, l.sent.At(l.sent.Next-1).size, 20)
	require.Equal(t, 1, l.unreliables.messages)
	held, _ := l.Waiting()
	require.False(t, held, "the rate is not why it waits")

	t.Log("# others that arrive are no answer")
	l.Overtaken(l.at, l.at)
	require.Zero(t, l.packets())

	t.Log("# the carrier tells")
	l.SetPath(l.at, Path{Fates: true})
	require.NotZero(t, l.packets())
	l.wait(minCarrierOutage - 1)
	l.packets()
	require.NotZero(t, play(), "it has another carrier, or perhaps one")
	l.wait(1)
	l.packets()
	require.Zero(t, play())
	l.Fate(l.at, l.sent.Next-1, true)
	require.NotZero(t, l.packets())

	t.Log("# another carrier, on which nothing arrives; what the one before still tells is no news of it")
	old := l.sent.Next - 1
	l.SetPath(l.at, Path{Fates: true, Epoch: 1})
	l.packets()
	l.wait(minCarrierOutage)
	require.True(t, l.inOutage())
	l.Fate(l.at, old, true)
	require.True(t, l.inOutage())
}
