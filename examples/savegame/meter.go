package main

import (
	"fmt"
	"time"

	"github.com/quivernet/quiver/stream"
)

// meterWindow is how far back a meter looks.
const meterWindow = 5 * time.Second

// meter measures the rate of a transfer over the last seconds. What was there before the transfer is no part of it.
type meter struct{ samples []sample }

type sample struct {
	at    time.Time
	bytes int64
}

func newMeter(now time.Time) *meter { return &meter{[]sample{{now, 0}}} }

func (m *meter) add(now time.Time, bytes int64) {
	m.samples = append(m.samples, sample{now, bytes})
	for len(m.samples) > 2 && now.Sub(m.samples[0].at) > meterWindow {
		m.samples = m.samples[1:]
	}
}

// rate returns bytes a second.
func (m *meter) rate() float64 {
	first, last := m.samples[0], m.samples[len(m.samples)-1]
	if d := last.at.Sub(first.at); d > 0 {
		return float64(last.bytes-first.bytes) / d.Seconds()
	}
	return 0
}

// state is how far a transfer is: in words, the most important ones first, and as a share of the whole.
type state struct {
	words []string
	share float64
}

// describe says how far it is, how fast, and how long it will take.
func (m *meter) describe(now time.Time, p stream.Progress) state {
	done := max(p.Acked, p.Resumed)
	m.add(now, done-p.Resumed)
	s := state{share: 1}
	if p.Total > 0 {
		s.share = float64(done) / float64(p.Total)
	}
	s.words = []string{fmt.Sprintf("%3d %%", int(s.share*100)), " of " + formatSize(max(p.Total, 0))}
	rate := m.rate()
	if rate <= 0 {
		return s
	}
	s.words = append(s.words, fmt.Sprintf(", %s/s", formatSize(int64(rate))))
	if left := p.Total - done; left > 0 {
		eta := time.Duration(float64(left) / rate * float64(time.Second))
		s.words = append(s.words, fmt.Sprintf(", %v left", eta.Round(time.Second)))
	}
	return s
}
