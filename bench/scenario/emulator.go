package scenario

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/internal/netsim"
)

// What the check of the emulator measures.
const (
	ModeDelay = "delay"
	ModeRate  = "rate"
	ModeLoss  = "loss"
	ModeQueue = "queue"
)

const (
	probeBytes = 1222   // 1,250 with what a datagram is charged
	probeCount = 20_000 // enough to measure a loss of 2 % to ± 0.2 points
)

// emulator checks that a net does what it is configured to do.
func emulator(ctx context.Context, j job.Job, r *job.Result) error {
	n, err := emulate.New(j)
	if err != nil {
		return err
	}
	defer n.Close()
	p := newProbe(n)
	checks := map[string]func(j job.Job) (configured, measured float64){
		ModeDelay: p.delay, ModeRate: p.rate, ModeLoss: p.loss, ModeQueue: p.queue,
	}
	check := checks[j.Mode]
	if check == nil {
		return fmt.Errorf("no check %q", j.Mode)
	}
	configured, measured := check(j)
	if math.IsNaN(measured) {
		return errors.New("nothing arrived")
	}
	r.Set("configured", configured)
	r.Set("measured", measured)
	r.Set("error", measured/configured-1)
	return nil
}

// A probe sends numbered packets and records when they arrive.
type probe struct {
	n       emulate.Net
	begin   time.Time
	sent    []time.Duration
	arrived chan arrival
}

type arrival struct {
	number int
	at     time.Duration
}

func newProbe(n emulate.Net) *probe {
	p := &probe{n: n, begin: time.Now(), arrived: make(chan arrival, 1<<16)}
	go func() {
		buf := make([]byte, 2048)
		for {
			if _, _, err := n.Server().ReadFrom(buf); err != nil {
				return
			}
			p.arrived <- arrival{int(binary.BigEndian.Uint32(buf)), time.Since(p.begin)}
		}
	}()
	return p
}

func (p *probe) send() {
	packet := make([]byte, probeBytes)
	binary.BigEndian.PutUint32(packet, uint32(len(p.sent)))
	p.sent = append(p.sent, time.Since(p.begin))
	_, _ = p.n.Client().WriteTo(packet, p.n.Address())
}

// collect returns what has arrived, once nothing has arrived for so long.
func (p *probe) collect(silence time.Duration) []arrival {
	var got []arrival
	for {
		select {
		case a := <-p.arrived:
			got = append(got, a)
		case <-time.After(silence):
			return got
		}
	}
}

// silence returns a time that is longer than any packet is in flight.
func silence(j job.Job) time.Duration { return j.RTT + time.Second }

// delay sends packets one by one, so that none waits for another. It returns
// milliseconds, including the time on the bottleneck.
func (p *probe) delay(j job.Job) (configured, measured float64) {
	const count = 50
	for range count {
		p.send()
		time.Sleep(20 * time.Millisecond)
	}
	var sum time.Duration
	got := p.collect(silence(j))
	for _, a := range got {
		sum += a.at - p.sent[a.number]
	}
	onWire := (probeBytes + netsim.UDPOverhead) * 8 * time.Second / time.Duration(j.Rate)
	return (j.RTT/2 + onWire).Seconds() * 1000, sum.Seconds() * 1000 / float64(len(got))
}

// rate overloads the path by half. It returns Mbit/s between the first and the last arrival.
func (p *probe) rate(j job.Job) (configured, measured float64) {
	p.flood(j, 1.5)
	got := p.collect(silence(j))
	span := got[len(got)-1].at - got[0].at
	bits := float64(len(got)-1) * (probeBytes + netsim.UDPOverhead) * 8
	return float64(j.Rate) / 1e6, bits / span.Seconds() / 1e6
}

// loss sends below the rate. It returns percent.
func (p *probe) loss(j job.Job) (configured, measured float64) {
	p.flood(j, 0.5)
	got := p.collect(silence(j))
	return j.Loss * 100, 100 * (1 - float64(len(got))/probeCount)
}

// queue sends at once more than the path holds. It returns the bytes that arrived.
func (p *probe) queue(j job.Job) (configured, measured float64) {
	const each = probeBytes + netsim.UDPOverhead
	most := max(64<<10, p.n.BDP())
	for range 3 * most / each {
		p.send()
	}
	spent := time.Since(p.begin).Seconds() * float64(j.Rate) / 8 // bytes that left the queue while the rest was still being sent
	return float64(most) + spent, float64(len(p.collect(silence(j)))) * each
}

// flood sends probeCount packets at a multiple of the path's rate.
func (p *probe) flood(j job.Job, times float64) {
	gap := time.Duration((probeBytes + netsim.UDPOverhead) * 8 / (float64(j.Rate) * times) * float64(time.Second))
	begin := time.Now()
	for i := range probeCount {
		if wait := time.Duration(i)*gap - time.Since(begin); wait > 0 {
			time.Sleep(wait)
		}
		p.send()
	}
}
