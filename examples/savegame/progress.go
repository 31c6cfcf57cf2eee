package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/term"

	desk "github.com/quivernet/quiver/examples/savegame/olddesk"
	"github.com/quivernet/quiver/stream"
)

const (
	barInterval  = 100 * time.Millisecond
	lineInterval = time.Second
	// defaultColumns is the width of a terminal that does not tell it.
	defaultColumns = 80
	// Columns of a bar; where there are fewer than the least, none is drawn.
	leastBar, mostBar = 10, 30
)

// display shows transfers: as a bar on a terminal, as lines elsewhere. What is over before its first look is not shown.
type display struct {
	out      io.Writer
	terminal func() (columns int) // nil: it is none

	mu   sync.Mutex
	last stream.Progress // of what was watched last
	took time.Duration
}

func newDisplay(out io.Writer) *display {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &display{out: out}
	}
	return &display{out: out, terminal: func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil || columns <= 0 {
			return defaultColumns
		}
		return columns
	}}
}

// watch shows one transfer until stop is called, which leaves its last state.
func (d *display) watch(label string, t desk.Tracker) (stop func()) {
	show, interval := d.line, lineInterval
	if d.terminal != nil {
		show, interval = d.bar, barInterval
	}
	begin := time.Now()
	m := newMeter(begin)
	ended := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for shown := false; ; shown = true {
			select {
			case now := <-ticker.C:
				show(label, m.describe(now, t.Progress()), false)
			case <-ended:
				if shown {
					show(label, m.describe(time.Now(), t.Progress()), true)
				}
				return
			}
		}
	})
	return func() {
		close(ended)
		work.Wait()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.last, d.took = t.Progress(), time.Since(begin)
	}
}

// bar draws over the line of the terminal that it is in.
func (d *display) bar(label string, s state, last bool) {
	end := ""
	if last {
		end = "\n"
	}
	fmt.Fprintf(d.out, "\r%s\x1b[K%s", fit(label, s, d.terminal()-1), end)
}

func (d *display) line(label string, s state, _ bool) {
	fmt.Fprintf(d.out, "%s: %s\n", label, strings.Join(s.words, ""))
}

// fit writes a state in so many columns: the share always, as much of the label as fits, and what else there is room for.
func fit(label string, s state, most int) string {
	line := cut(label, most-columns(s.words[0])-2)
	if line != "" {
		line += ": "
	}
	line += s.words[0]
	for _, w := range s.words[1:] {
		if columns(line)+columns(w) <= most {
			line += w
		}
	}
	if room := min(most-columns(line)-3, mostBar); room >= leastBar {
		full := int(s.share * float64(room))
		line += " [" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "]"
	}
	return cut(line, most)
}

// cut shortens a text to so many columns.
func cut(text string, most int) string {
	if columns(text) <= most {
		return text
	}
	runes := []rune(text)
	for len(runes) > 0 && columns(string(runes))+1 > most {
		runes = runes[:len(runes)-1]
	}
	if len(runes) == 0 {
		return ""
	}
	return string(runes) + "…"
}

// columns is how many columns a text takes at most: letters of East Asia take two, and marks over letters none.
func columns(text string) (n int) {
	for _, r := range text {
		switch {
		case unicode.Is(unicode.Mn, r):
		case r >= 0x1100 && r != '…':
			n += 2
		default:
			n++
		}
	}
	return n
}

// report says what the transfer that was watched last cost.
func (d *display) report(out io.Writer, what, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	size, resumed := d.last.Total, d.last.Resumed
	fmt.Fprintf(out, "%s %s: %s in %.2f s, %s", what, name, formatSize(size), d.took.Seconds(), formatRate(size-resumed, d.took))
	if resumed > 0 {
		fmt.Fprintf(out, ", %s of it were there already", formatSize(resumed))
	}
	fmt.Fprintln(out)
}
