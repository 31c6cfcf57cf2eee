package bunch

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pair is two connections over a simple simulated path. Each step checks the invariants.
type pair struct {
	t     testing.TB
	now   time.Time
	ends  [2]*Conn
	wire  []flight
	delay time.Duration
	max   int
	rand  *rand.Rand
	drop  func(from int, packet []byte) bool
	sent  [2]int
	order int
	large bool // too many channels to check all after each step

	fates    [2]bool // the carrier of an end tells them
	verdicts []verdict
}

// verdict is the fate of a packet, which a carrier will report to the end that sent it.
type verdict struct {
	at      time.Time
	end     int
	number  uint64
	arrived bool
}

type flight struct {
	at    time.Time
	order int
	to    int
	data  []byte
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newPair returns a pair of a client, ends[0], and a server.
func newPair(t testing.TB, config Config) *pair {
	p := &pair{t: t, now: epoch, delay: 25 * time.Millisecond, max: 1404, rand: rand.New(rand.NewPCG(1, 2))}
	for i := range p.ends {
		config.Client = i == 0
		c, err := NewConn(p.now, config)
		require.NoError(t, err)
		p.ends[i] = c
	}
	return p
}

// flush runs the timers and sends all packets that can be sent.
func (p *pair) flush() {
	for i, c := range p.ends {
		require.NoError(p.t, c.Advance(p.now))
		for n := 0; ; n++ {
			atMost(p.t, int64(n), 100_000, "packets at one time")
			b, number, ok := c.AppendPacket(p.now, nil, p.max)
			if !ok {
				break
			}
			atMost(p.t, int64(len(b)), int64(p.max), "a packet's bytes")
			arrives := p.put(i, b)
			if p.fates[i] {
				p.verdicts = append(p.verdicts, verdict{p.now.Add(2 * p.delay), i, number, arrives})
			}
		}
		if at, ok := c.NextTimeout(); ok && !at.After(p.now) {
			p.t.Fatalf("end %d: timeout %v is not after now and no packet is ready", i, p.now.Sub(at))
		}
	}
}

// put sends a packet, and reports whether it will arrive.
func (p *pair) put(from int, b []byte) bool {
	p.sent[from]++
	if p.drop != nil && p.drop(from, b) {
		return false
	}
	p.order++
	p.wire = append(p.wire, flight{p.now.Add(p.delay), p.order, 1 - from, b})
	return true
}

// tell reports the verdicts that are due to the ends.
func (p *pair) tell() {
	for len(p.verdicts) > 0 && !p.verdicts[0].at.After(p.now) {
		v := p.verdicts[0]
		p.verdicts = p.verdicts[1:]
		p.ends[v.end].Fate(p.now, v.number, v.arrived)
	}
}

// step advances the time to the next event before end, and reports whether there was one.
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
	if len(p.verdicts) > 0 && p.verdicts[0].at.Before(next) {
		next = p.verdicts[0].at
	}
	for _, c := range p.ends {
		if at, ok := c.NextTimeout(); ok && at.Before(next) {
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
	p.tell()
	for _, c := range p.ends {
		require.NoError(p.t, c.Advance(p.now))
		if !p.large {
			checkConn(p.t, c)
		}
	}
	return true
}

func (p *pair) run(d time.Duration) {
	for end := p.now.Add(d); p.step(end); {
	}
	p.flush()
}

// take takes all messages that are ready at one end.
func (p *pair) take(end int) (all []Message) {
	for m, ok := p.ends[end].Next(); ok; m, ok = p.ends[end].Next() {
		m.receipt.at = 0 // tests compare messages
		all = append(all, m)
	}
	return all
}

// open opens a channel at one end.
func (p *pair) open(end int, priority Priority) uint64 {
	number, err := p.ends[end].Open(priority)
	require.NoError(p.t, err)
	return number
}

func (p *pair) send(end int, channel uint64, d Delivery, payload []byte) {
	require.NoError(p.t, p.ends[end].Send(channel, d, payload))
}

// settled asserts that everything reliable has been acknowledged, and that the two ends agree
// about its cost.
func (p *pair) settled() {
	for i, c := range p.ends {
		peer := p.ends[1-i]
		require.True(p.t, c.Drained(), "end %d holds %d entries", i, c.flow.entries)
		require.Equal(p.t, c.flow.sent, peer.flow.received, "flow of end %d", i)
		require.Zero(p.t, c.sent.bytesInFlight)
		require.Zero(p.t, c.sent.packetsInFlight)
		held, _ := charged(c)
		require.Equal(p.t, c.flow.received, c.flow.consumed+uint64(held), "flow at end %d", i)
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
			ch := p.open(0, Normal)
			sizes := []int{0, 1, 100, 1098, 1099, 1100, 1101, 32768, 65536, 5}
			next, got := 0, 0
			const total = 300
			for end := p.now.Add(10 * time.Minute); got < total; {
				for next < total {
					size := sizes[next%len(sizes)]
					if out, slots := p.ends[0].Reliable(ch); out+Entries(size) >= slots {
						break
					}
					p.send(0, ch, Reliable, pattern(size, next))
					next++
				}
				require.True(t, p.step(end), "stuck at %d of %d", got, total)
				for _, m := range p.take(1) {
					require.Equal(t, got == 0, m.Open)
					require.Equal(t, pattern(sizes[got%len(sizes)], got), append([]byte{}, m.Payload...), got)
					got++
				}
			}
			s := p.ends[0].Stats()
			t.Logf("%v: %v virtual, sent %d resent %d lost %d spurious %d probes %d, acks back %d", loss, p.now.Sub(epoch), s.PacketsSent, s.BunchesResent, s.PacketsLost, s.SpuriousLosses, s.ProbesSent, p.sent[1])
			p.drop = nil
			p.run(5 * time.Second)
			p.settled()
		})
	}
}
