package command

import (
	"cmp"
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
	begin, ended := t.Progress(), make(chan struct{})
	draw, clear, interval := j.lines(label, begin.Total-begin.Resumed), func() error { return nil }, lineInterval
	if f, isFile := j.ErrWriter.(*os.File); isFile && term.IsTerminal(int(f.Fd())) {
		bar := newBar(f, label, begin.Total-begin.Resumed)
		draw, clear, interval = bar.Set64, bar.Clear, barInterval
	}
	var looking sync.WaitGroup
	looking.Go(func() {
		for again := time.Tick(interval); ; {
			select {
			case <-again:
				_ = draw(t.Progress().Acked - begin.Resumed) // what was there before did not travel
			case <-ended:
				_ = clear() // a bar that cannot be drawn stops nothing
				return
			}
		}
	})
	return func() {
		close(ended)
		looking.Wait()
	}
}

// lines draws a line whenever there is something new. A negative total is not known.
func (j *job) lines(label string, total int64) (draw func(moved int64) error) {
	said, of := int64(-1), ""
	if total >= 0 {
		of = " of " + sizeText(total)
	}
	return func(moved int64) error {
		if moved != said {
			j.note("%s: %s%s", label, sizeText(moved), of)
			said = moved
		}
		return nil
	}
}

// newBar makes a bar, or where the total is not known a spinner, which turns when it is told of something new and not by itself:
// it would do that for ever.
func newBar(out io.Writer, label string, total int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(cmp.Or(total, 1), progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(label), progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true), progressbar.OptionShowCount(), progressbar.OptionUseANSICodes(true), progressbar.OptionSetWidth(20),
		progressbar.OptionSetSpinnerChangeInterval(0))
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

// noteDisplaced says which versions are gone for good, also when --quiet is given.
func (s *session) noteDisplaced(stored desk.Stored) {
	for _, d := range stored.Displaced {
		fmt.Fprintf(s.ErrWriter, "deleted to make room: %s\n", plain(d.String()))
	}
	if stored.More > 0 {
		fmt.Fprintf(s.ErrWriter, "deleted to make room: versions of %s more\n", english.Plural(stored.More, "save", ""))
	}
}

// report says what a transfer did.
func (s *session) report(v versions.Version, bytes int64, moved string, begin time.Time) {
	s.say("%s %s: version %d, %s, %s %s in %.1f s", s.Name, plain(v.Name), v.Number, contentText(v), sizeText(bytes), moved, time.Since(begin).Seconds())
}
