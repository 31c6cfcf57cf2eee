package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/stream"
)

const (
	barInterval  = 100 * time.Millisecond
	lineInterval = time.Second
)

// display shows transfers: as a bar on a terminal, as lines elsewhere.
type display struct {
	out      io.Writer
	terminal bool
}

func newDisplay(out io.Writer) *display {
	f, ok := out.(*os.File)
	return &display{out, ok && term.IsTerminal(int(f.Fd()))}
}

// watch shows one transfer until stop is called, which leaves its last state.
func (d *display) watch(label string, t desk.Tracker) (stop func()) {
	show, interval := d.line(label), lineInterval
	if d.terminal {
		show, interval = d.bar(label), barInterval
	}
	ended := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				show(now, t.Progress(), false)
			case <-ended:
				show(time.Now(), t.Progress(), true)
				return
			}
		}
	})
	return func() {
		close(ended)
		work.Wait()
	}
}

// bar draws on a terminal.
func (d *display) bar(label string) func(now time.Time, p stream.Progress, last bool) {
	var bar *progressbar.ProgressBar
	return func(_ time.Time, p stream.Progress, last bool) {
		if bar == nil {
			bar = progressbar.NewOptions64(max(p.Total, 1),
				progressbar.OptionSetWriter(d.out),
				progressbar.OptionSetDescription(label),
				progressbar.OptionShowBytes(true),
				progressbar.OptionShowCount(),
				progressbar.OptionUseIECUnits(true),
				progressbar.OptionSetPredictTime(true),
				progressbar.OptionSetWidth(30),
			)
		}
		if p.Total > 0 {
			_ = bar.Set64(p.Acked)
		}
		if last {
			_ = bar.Exit()
			fmt.Fprintln(d.out)
		}
	}
}

// line writes a line for each look.
func (d *display) line(label string) func(now time.Time, p stream.Progress, last bool) {
	m := newMeter(time.Now())
	return func(now time.Time, p stream.Progress, _ bool) {
		m.add(now, p.Acked)
		fmt.Fprintf(d.out, "%s: %s\n", label, m.describe(p))
	}
}

// meterWindow is how far back a meter looks.
const meterWindow = 5 * time.Second

// meter measures the rate of a transfer over the last seconds.
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

// describe says how far it is, how fast, and how long it will take.
func (m *meter) describe(p stream.Progress) string {
	percent := int64(100)
	if p.Total > 0 {
		percent = p.Acked * 100 / p.Total
	}
	s := fmt.Sprintf("%3d %% of %s", percent, formatSize(max(p.Total, 0)))
	rate := m.rate()
	if rate <= 0 {
		return s
	}
	s += fmt.Sprintf(", %s/s", formatSize(int64(rate)))
	if left := p.Total - p.Acked; left > 0 {
		eta := time.Duration(float64(left) / rate * float64(time.Second))
		s += fmt.Sprintf(", %v left", eta.Round(time.Second))
	}
	return s
}
