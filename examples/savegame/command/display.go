package command

import (
	"fmt"
	"io"
	"os"
	"sync"
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

// watch shows one stream until stop is called, unless it is over before the first look.
func (s *session) watch(label string, t desk.Tracker) (stop func()) {
	ended := make(chan struct{})
	var looking sync.WaitGroup
	if !s.Bool("quiet") {
		looking.Go(func() { s.show(label, t, ended) })
	}
	return func() {
		close(ended)
		looking.Wait()
		if p := t.Progress(); p.Acked > p.Resumed {
			s.moved.Store(true)
		}
	}
}

// show looks at a stream until it has ended: a bar on a terminal, lines elsewhere.
func (s *session) show(label string, t desk.Tracker, ended <-chan struct{}) {
	out, interval := s.stderr, barInterval
	f, isFile := out.(*os.File)
	terminal := isFile && term.IsTerminal(int(f.Fd()))
	if !terminal {
		out, interval = io.Discard, lineInterval
	}
	p, said := t.Progress(), int64(-1)
	total := p.Total - p.Resumed // what was there before does not travel
	bar := progressbar.NewOptions64(max(total, 1), progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(label), progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true), progressbar.OptionShowCount(), progressbar.OptionUseANSICodes(true), progressbar.OptionSetWidth(20))
	bar.StartWithoutRender()
	defer bar.Clear()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			moved := t.Progress().Acked - p.Resumed
			_ = bar.Set64(moved) // a bar that cannot be drawn stops nothing
			if !terminal && moved != said {
				s.note("%s: %s of %s", label, sizeText(moved), sizeText(total))
				said = moved
			}
		case <-ended:
			return
		}
	}
}

// sizeText writes bytes for people.
func sizeText(bytes int64) string { return humanize.Bytes(uint64(max(bytes, 0))) }

// contentText says how much a version holds.
func contentText(v versions.Version) string {
	return fmt.Sprintf("%s in %s", sizeText(v.Size), english.Plural(v.Files, "file", ""))
}

// report prints what a transfer did.
func (s *session) report(out io.Writer, v versions.Version, bytes int64, moved string, begin time.Time) {
	fmt.Fprintf(out, "%s %s: version %d, %s, %s %s in %.1f s\n", s.Name, plain(v.Name), v.Number, contentText(v), sizeText(bytes), moved, time.Since(begin).Seconds())
}
