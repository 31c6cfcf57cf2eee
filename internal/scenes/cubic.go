package scenes

import (
	"math"
	"time"
)

const (
	cubicC    = 0.4 // RFC 9438, section 5.1
	cubicBeta = 0.7 // RFC 9438, section 4.6
)

// A cubic is CUBIC (RFC 9438). Slow start ends as in quic-go, which is nearly HyStart++ (RFC
// 9406).
type cubic struct {
	reno
	wMax   float64       // W_max: the window before the last cut
	begin  time.Duration // start of the epoch of congestion avoidance; 0 = no epoch
	origin float64       // window at the plateau
	k      float64       // K: seconds from the start of the epoch to the plateau
	wEst   float64       // W_est: the window that Reno would have
}

func newCubic() *cubic {
	return &cubic{reno: reno{cwnd: 10, slow: true, cut: -1, start: hybridStart{end: -1}}}
}

func (c *cubic) acked(a ack) {
	if c.slow {
		c.reno.acked(a)
		return
	}
	c.start.minRTT = min(c.start.minRTT, a.rtt)
	if a.limited {
		return
	}
	if c.begin == 0 {
		c.enter(a.now)
	}
	t := (a.now - c.begin + c.start.minRTT).Seconds()
	target := min(max(c.origin+cubicC*math.Pow(t-c.k, 3), c.cwnd), 1.5*c.cwnd)
	c.wEst += 3 * (1 - cubicBeta) / (1 + cubicBeta) / c.cwnd // RFC 9438, section 4.3
	c.cwnd = max(c.cwnd+(target-c.cwnd)/c.cwnd, c.wEst)
}

// enter starts an epoch of congestion avoidance.
func (c *cubic) enter(now time.Duration) {
	c.begin = max(now, 1)
	c.wEst = c.cwnd
	c.origin = c.wMax
	c.k = math.Cbrt(max(c.wMax-c.cwnd, 0) / cubicC)
	if c.cwnd >= c.wMax {
		c.origin = c.cwnd
		c.k = 0
	}
}

func (c *cubic) lost(now, sent time.Duration, _ int) {
	if sent <= c.cut {
		return
	}
	c.cut = now
	c.slow = false
	c.begin = 0
	if c.cwnd < c.wMax {
		c.wMax = c.cwnd * (1 + cubicBeta) / 2 // fast convergence, RFC 9438, section 4.7
	} else {
		c.wMax = c.cwnd
	}
	c.cwnd = max(c.cwnd*cubicBeta, 2)
}

func (c *cubic) timeout(time.Duration) { c.cwnd = 2 }

// pace returns the rate at which Linux paces TCP without a pacing rate of its own: twice the window
// per round trip in slow start, and 1.2 times the window afterwards.
func (c *cubic) pace(srtt time.Duration) float64 {
	if c.slow {
		return 2 * c.cwnd / srtt.Seconds()
	}
	return 1.2 * c.cwnd / srtt.Seconds()
}
