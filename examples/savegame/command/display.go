package command

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/stream"
)

const (
	barInterval  = 100 * time.Millisecond
	lineInterval = 2 * time.Second
)

// watch shows one stream until stop is called, and notes whether it has moved.
func (s *session) watch(label string, t desk.Tracker) (stop func()) {
	hide := s.show(label, t)
	return func() {
		hide()
		if p := t.Progress(); p.Acked > p.Resumed {
			s.moved.Store(true)
		}
	}
}

// show shows how far something is until stop is called, unless it is over before the first look: by a bar on a terminal, by
// lines elsewhere.
func (j *job) show(label string, t desk.Tracker) (stop func()) {
	if j.Bool("quiet") {
		return func() {}
	}
	draw, interval := j.lines(label, t), lineInterval
	if f, isFile := j.ErrWriter.(*os.File); isFile && term.IsTerminal(int(f.Fd())) {
		draw, interval = bar(f, label, t), barInterval
	}
	ended := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				draw(false)
			case <-ended:
				draw(true)
				return
			}
		}
	})
	return func() {
		close(ended)
		looking.Wait()
	}
}

// lines draws a line whenever there is something new.
func (j *job) lines(label string, t desk.Tracker) (draw func(ended bool)) {
	begin, said, of := t.Progress(), int64(-1), ""
	if begin.Total >= 0 {
		of = " of " + sizeText(begin.Total-begin.Resumed) // what was there before does not travel
	}
	return func(ended bool) {
		if moved := t.Progress().Acked - begin.Resumed; !ended && moved != said {
			j.note("%s: %s%s", label, sizeText(moved), of)
			said = moved
		}
	}
}

// bar draws a bar, or where the end is unknown a spinner.
func bar(out io.Writer, label string, t desk.Tracker) (draw func(ended bool)) {
	begin, total := t.Progress(), int64(-1)
	if begin.Total >= 0 {
		total = max(begin.Total-begin.Resumed, 1)
	}
	bar := progressbar.NewOptions64(total, progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(label), progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true), progressbar.OptionShowCount(), progressbar.OptionUseANSICodes(true), progressbar.OptionSetWidth(20))
	bar.StartWithoutRender()
	return func(ended bool) {
		if ended {
			_ = bar.Clear() // a bar that cannot be drawn stops nothing
		} else {
			_ = bar.Set64(t.Progress().Acked - begin.Resumed)
		}
	}
}

// reading counts the bytes that a scan reads, of nobody knows how many.
type reading struct{ atomic.Int64 }

// Progress implements [desk.Tracker].
func (r *reading) Progress() stream.Progress { return stream.Progress{Acked: r.Load(), Total: -1} }

// sizeText writes bytes for people.
func sizeText(bytes int64) string { return humanize.Bytes(uint64(max(bytes, 0))) }

// contentText says how much a version holds.
func contentText(v versions.Version) string {
	return fmt.Sprintf("%s in %s", sizeText(v.Size), english.Plural(v.Files, "file", ""))
}

// report says what a transfer did.
func (s *session) report(v versions.Version, bytes int64, moved string, begin time.Time) {
	s.say("%s %s: version %d, %s, %s %s in %.1f s", s.Name, plain(v.Name), v.Number, contentText(v), sizeText(bytes), moved, time.Since(begin).Seconds())
}
