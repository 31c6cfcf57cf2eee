package command

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/quivernet/quiver/examples/savegame/desk"
	"github.com/quivernet/quiver/examples/savegame/versions"
)

const (
	barInterval  = 100 * time.Millisecond
	lineInterval = 2 * time.Second
)

// watch shows what moves, and notes whether something has.
func (s *session) watch(label string, total int64) (moved func(bytes int), stop func()) {
	show, stop := s.show(label, total)
	return func(bytes int) {
		s.moved.Store(true)
		show(bytes)
	}, stop
}

// show shows how much of something has moved until stop is called: by a bar on a terminal, by lines elsewhere. A negative total is not
// known. One goroutine at a time may call moved.
func (j *job) show(label string, total int64) (moved func(bytes int), stop func()) {
	if j.Bool("quiet") {
		return func(int) {}, func() {}
	}
	if f, isFile := j.ErrWriter.(*os.File); isFile && term.IsTerminal(int(f.Fd())) {
		bar := newBar(f, label, total)
		return func(bytes int) { _ = bar.Add(bytes) }, func() { _ = bar.Clear() } // a bar that cannot be drawn stops nothing
	}
	return j.lines(label, total), func() {}
}

// lines says now and then how much has moved, and nothing of what is over before that.
func (j *job) lines(label string, total int64) (moved func(bytes int)) {
	sum, of, next := int64(0), "", time.Now().Add(lineInterval)
	if total >= 0 {
		of = " of " + sizeText(total)
	}
	return func(bytes int) {
		if sum += int64(bytes); time.Now().Before(next) {
			return
		}
		j.note("%s: %s%s", label, sizeText(sum), of)
		next = time.Now().Add(lineInterval)
	}
}

// newBar makes a bar, or where the total is not known a spinner, which turns when it is told of something new and not by itself:
// it would do that for ever.
func newBar(out io.Writer, label string, total int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(cmp.Or(total, 1), progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(label), progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true), progressbar.OptionShowCount(), progressbar.OptionUseANSICodes(true), progressbar.OptionSetWidth(20),
		progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionThrottle(barInterval))
}

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
