package stream

import (
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
)

// sweeps is how many paths TestSweep draws.
var sweeps = flag.Int("sweep", 4, "paths, drawn at random, over which transfers are compared with a quic-go stream")

// TestSweep moves blobs over paths that nobody has thought of, sealed and over
// QUIC, beside a quic-go stream. With -v it prints how long each took over
// ideal. Of 1,060 paths none took six times as long as the greater of the
// stream's time and ideal, sealed, but over ways back below 256 kbit/s.
func TestSweep(t *testing.T) {
	first := testkit.Seed(t)
	for seed := first; seed < first+uint64(testkit.Brief(1, *sweeps)); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { newSweep(seed).run(t) })
	}
}

// sweep is one path of TestSweep.
type sweep struct {
	random      *rand.Rand
	there, back netsim.Config
	size        int
	change      func(there, back *netsim.Path) // what becomes of the path once the transfer has begun; nil = nothing
}

func newSweep(seed uint64) *sweep {
	s := &sweep{random: rand.New(rand.NewPCG(seed, 7))}
	s.there = netsim.Config{Rate: int64(s.between(0.5e6, 200e6)), Delay: time.Duration(s.between(1e6, 200e6))}
	s.draw()
	s.back = s.there
	s.back.Police, s.back.Bucket, s.back.Seed = 0, 0, s.random.Uint64()
	if s.chance(0.2) {
		s.back.Rate, s.back.Queue = max(int64(float64(s.there.Rate)/s.between(2, 40)), 256e3), 0
	}
	s.size = int(min(max(float64(s.there.Rate)/8*s.between(0.5, 8), 64<<10), 8<<20))
	if s.chance(0.3) {
		s.drawChange()
	}
	return s
}

// between draws from a range, each factor of it as often.
func (s *sweep) between(a, b float64) float64 { return a * math.Pow(b/a, s.random.Float64()) }

func (s *sweep) chance(p float64) bool { return s.random.Float64() < p }

// draw draws the weather there.
func (s *sweep) draw() {
	c := &s.there
	c.Seed = s.random.Uint64()
	if s.chance(0.35) {
		c.Jitter = time.Duration(s.random.Float64() * 1.5 * float64(c.Delay))
	}
	if s.chance(0.5) {
		c.Loss = []float64{0.001, 0.01, 0.03}[s.random.IntN(3)]
	}
	if s.chance(0.15) {
		c.Burst = netsim.Bursts(s.between(0.01, 0.1), s.between(3, 30))
	}
	if s.chance(0.15) {
		c.Clump = time.Duration(s.between(2e6, 30e6))
	}
	if s.chance(0.1) {
		c.Reorder = s.between(0.005, 0.3)
	}
	if s.chance(0.05) {
		c.Duplicate = 0.05
	}
	if s.chance(0.05) {
		c.MTU = 1300
	}
	s.drawQueue()
}

func (s *sweep) drawQueue() {
	c := &s.there
	product := float64(c.Rate) / 8 * 2 * c.Delay.Seconds()
	c.Queue = int(max(s.between(0.125, 8)*product, 6000))
	c.CoDel = s.chance(0.1)
	if s.chance(0.08) {
		c.Police, c.Bucket = c.Rate/2, int(max(product/2, 16<<10))
	}
}

// drawChange draws an outage in one or both directions, or a change of the
// round trip, temporary or permanent.
func (s *sweep) drawChange() {
	begin, lasts := time.Duration(s.between(50e6, 2e9)), time.Duration(s.between(30e6, 1e9))
	if s.chance(0.5) {
		both := s.chance(0.5)
		s.change = func(there, back *netsim.Path) {
			time.Sleep(begin)
			there.Dark(lasts)
			if both {
				back.Dark(lasts)
			}
		}
		return
	}
	factor, comesBack := s.between(0.2, 4), s.chance(0.5)
	s.change = func(there, back *netsim.Path) {
		time.Sleep(begin)
		other, otherBack := s.there, s.back
		other.Delay, otherBack.Delay = time.Duration(float64(other.Delay)*factor), time.Duration(float64(otherBack.Delay)*factor)
		there.SetConfig(other)
		back.SetConfig(otherBack)
		if time.Sleep(lasts); comesBack {
			there.SetConfig(s.there)
			back.SetConfig(s.back)
		}
	}
}

func (s *sweep) ideal() time.Duration {
	rate := float64(s.there.Rate)
	if s.there.Police > 0 {
		rate = float64(s.there.Police)
	}
	inRuns := 0.0
	if b := s.there.Burst; b.Enter > 0 {
		inRuns = b.Enter / (b.Enter + b.Leave)
	}
	return s.there.Delay + time.Duration(float64(s.size)*8e9/rate/(1-s.there.Loss)/(1-inRuns))
}

func (s *sweep) run(t *testing.T) {
	ideal := s.ideal()
	// A stream that loses does so for minutes; how much longer it takes than this tells nothing.
	limit := max(30*ideal, time.Minute)
	stream := s.stream(t, limit)
	row := fmt.Sprintf("%+v, back %d bit/s, %d bytes, ideal %v, changes %v: stream %.2f", s.there, s.back.Rate, s.size, ideal, s.change != nil, over(stream, ideal))
	for _, sealed := range []bool{true, false} {
		for _, via := range []Backend{Window{}, Slices{}} {
			took := s.quiver(t, via, sealed, limit)
			row += fmt.Sprintf(", %T (sealed %v) %.2f", via, sealed, over(took, ideal))
			if sealed {
				require.Less(t, took, 6*max(ideal, stream), row)
			}
		}
	}
	t.Log(row)
}

func over(took, ideal time.Duration) float64 { return took.Seconds() / ideal.Seconds() }

// stream returns how long a quic-go stream takes, limit at most.
func (s *sweep) stream(t *testing.T, limit time.Duration) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		near, far := netsim.Pipe(s.there, s.back)
		p := newPlain(t, near, far)
		time.Sleep(time.Second)
		if s.change != nil {
			go s.change(near.To(far), far.To(near))
		}
		var err error
		if took, err = p.try(t, s.size); err != nil { // by its idle timeout, as its probes come ever later
			took = limit
		}
		took = min(took, limit)
		p.close()
		time.Sleep(time.Minute)
		_, _ = near.Close(), far.Close()
	})
	return took
}

// quiver returns how long a blob takes, limit at most.
func (s *sweep) quiver(t *testing.T, via Backend, sealed bool, limit time.Duration) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		near, far := netsim.Pipe(s.there, s.back)
		// The minute lets quic-go try for 30 s, as a path may lose ten packets in a row.
		config := rpc.Config{Sealed: sealed, HelloTimeout: time.Minute, HandshakeTimeout: time.Minute}
		l, leave := joinQUIC(t, near, far, config, func(server, client *rpc.World) {})
		time.Sleep(2 * time.Second)
		arrived := make(chan error, 1)
		save.Handle(l.server, func(in *IncomingBlob) {
			go func() {
				_, err := io.Copy(io.Discard, in)
				arrived <- err
			}()
		})
		if s.change != nil {
			go s.change(near.To(far), far.To(near))
		}
		begin := time.Now()
		_, err := save.Start(l.toServer, generated(s.size), int64(s.size), Via(via))
		require.NoError(t, err)
		select {
		case err := <-arrived:
			if took = time.Since(begin); err != nil { // by its idle timeout, likewise
				assert.False(t, sealed, "%+v: %v", s.there, err)
				took = limit
			}
		case <-time.After(limit):
			took = limit
		}
		leave()
		time.Sleep(time.Minute)
		_, _ = near.Close(), far.Close()
	})
	return took
}
