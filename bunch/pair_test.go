package bunch

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pair is two connections over a small link in virtual time.
type pair struct {
	t     *testing.T
	now   time.Time
	ends  [2]*Conn
	wire  []flight
	delay time.Duration
	max   int
	rand  *rand.Rand
	drop  func(from int, packet []byte) bool
	sent  [2]int
	limit int // packets in flight a direction, 0 = any
	order int
}

type flight struct {
	at    time.Time
	order int
	to    int
	data  []byte
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newPair(t *testing.T, config Config) *pair {
	p := &pair{t: t, now: epoch, delay: 25 * time.Millisecond, max: 1404, rand: rand.New(rand.NewPCG(1, 2))}
	for i := range p.ends {
		config.Client = i == 0
		c, err := NewConn(p.now, config)
		require.NoError(t, err)
		p.ends[i] = c
	}
	return p
}

// flush sends all that is ready.
func (p *pair) flush() {
	for i, c := range p.ends {
		for {
			b, _, ok := c.AppendPacket(p.now, nil, p.max)
			if !ok {
				break
			}
			p.sent[i]++
			require.LessOrEqual(p.t, len(b), p.max)
			if p.drop != nil && p.drop(i, b) {
				continue
			}
			p.order++
			p.wire = append(p.wire, flight{p.now.Add(p.delay), p.order, 1 - i, b})
		}
	}
}

// step moves time to the next event, at most until end, and reports whether there was one.
func (p *pair) step(end time.Time) bool {
	p.flush()
	next := end
	sort.Slice(p.wire, func(i, j int) bool {
		a, b := p.wire[i], p.wire[j]
		return a.at.Before(b.at) || a.at.Equal(b.at) && a.order < b.order
	})
	if len(p.wire) > 0 && p.wire[0].at.Before(next) {
		next = p.wire[0].at
	}
	for _, c := range p.ends {
		if at, ok := c.NextTimeout(); ok && at.Before(next) {
			require.True(p.t, at.After(p.now), "timeout %v is not after %v", at, p.now)
			next = at
		}
	}
	if !next.Before(end) {
		p.now = end
		return false
	}
	p.now = next
	for len(p.wire) > 0 && !p.wire[0].at.After(p.now) {
		f := p.wire[0]
		p.wire = p.wire[1:]
		require.NoError(p.t, p.ends[f.to].Receive(p.now, f.data))
	}
	for _, c := range p.ends {
		require.NoError(p.t, c.Advance(p.now))
	}
	return true
}

func (p *pair) run(d time.Duration) {
	for end := p.now.Add(d); p.step(end); {
	}
}

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
	return b
}

func TestPairDeliversInOrder(t *testing.T) {
	for _, loss := range []float64{0, 0.01, 0.05, 0.2, 0.5} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			p := newPair(t, Config{})
			p.drop = func(int, []byte) bool { return p.rand.Float64() < loss }
			ch, err := p.ends[0].Open(Normal)
			require.NoError(t, err)
			sizes := []int{0, 1, 100, 1098, 1099, 1100, 1101, 32768, 65536, 5}
			next, got := 0, 0
			const total = 300
			for end := p.now.Add(10 * time.Minute); got < total; {
				for next < total {
					size := sizes[next%len(sizes)]
					if out, slots := p.ends[0].Reliable(ch); out+Entries(size) >= slots {
						break
					}
					require.NoError(t, p.ends[0].Send(ch, Reliable, pattern(size, next)))
					next++
				}
				require.True(t, p.step(end), "stuck at %d of %d", got, total)
				for {
					m, ok := p.ends[1].Next()
					if !ok {
						break
					}
					require.Equal(t, got == 0, m.Open)
					require.Equal(t, pattern(sizes[got%len(sizes)], got), append([]byte{}, m.Payload...), got)
					got++
				}
			}
			s := p.ends[0].Stats()
			t.Logf("%v: %v virtual, sent %d resent %d lost %d spurious %d probes %d, acks back %d", loss, p.now.Sub(epoch), s.PacketsSent, s.BunchesResent, s.PacketsLost, s.SpuriousLosses, s.ProbesSent, p.sent[1])
			p.drop = nil
			p.run(5 * time.Second)
			require.True(t, p.ends[0].Drained())
		})
	}
}
