// Package report writes what was measured: as JSON with every raw sample, as
// Markdown, and as an HTML page.
package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
)

// A Document is one run of the bench.
type Document struct {
	Machine    Machine
	Sittings   []Sitting
	Contenders []Contender
	Results    []job.Result
}

// A Sitting is a run, or one that resumed it.
type Sitting struct {
	Date     time.Time
	Took     time.Duration
	Revision string `json:",omitempty"` // revision of this repository
}

// A Contender is what the report says about a contender.
type Contender struct{ Name, Version, Settings string }

// New returns a document with its first sitting.
func New(now time.Time) *Document {
	d := &Document{Machine: thisMachine()}
	for _, p := range peer.All() {
		d.Contenders = append(d.Contenders, Contender{p.Name, version(p.Module), p.Settings})
	}
	d.Sit(now)
	return d
}

// Sit begins the next sitting.
func (d *Document) Sit(now time.Time) {
	d.Sittings = append(d.Sittings, Sitting{Date: now.UTC().Truncate(time.Second), Revision: revision()})
}

// Rise ends the newest sitting.
func (d *Document) Rise(took time.Duration) { d.Sittings[len(d.Sittings)-1].Took = took }

// Lacks returns those of the jobs that have no figures. A cell of which a run
// was cut is not run again.
func (d *Document) Lacks(jobs []job.Job) []job.Job {
	there := make(map[string]bool)
	for _, r := range d.Results {
		there[r.Job.String()] = r.Err == ""
		if r.Cut {
			there[r.Cell()] = true
		}
	}
	var left []job.Job
	for _, j := range jobs {
		if !there[j.String()] && !there[j.Cell()] {
			left = append(left, j)
		}
	}
	return left
}

// Add adds a result, in place of one without figures.
func (d *Document) Add(r job.Result) {
	d.Results = slices.DeleteFunc(d.Results, func(old job.Result) bool { return old.Err != "" && old.Job == r.Job })
	for i, ms := range r.Samples {
		r.Samples[i] = math.Round(ms*1e4) / 1e4 // to 0.1 µs
	}
	d.Results = append(d.Results, r)
}

// WriteJSON writes the whole document, with one line for each result, so that
// two runs can be compared by line.
func (d *Document) WriteJSON(w io.Writer) error {
	head := *d
	head.Results = nil
	text, err := json.MarshalIndent(head, "", " ")
	if err != nil {
		return err
	}
	lines := bufio.NewWriter(w)
	text = bytes.TrimSuffix(text, []byte(",\n \"Results\": null\n}"))
	fmt.Fprintf(lines, "%s,\n \"Results\": [", text)
	for i, r := range d.Results {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		lines.WriteString(strings.Repeat(",", min(i, 1)) + "\n")
		lines.Write(text)
	}
	lines.WriteString("\n]}\n")
	return lines.Flush()
}

// ReadJSON reads what WriteJSON has written.
func ReadJSON(r io.Reader) (*Document, error) {
	d := new(Document)
	return d, json.NewDecoder(r).Decode(d)
}

// failed returns the results without figures.
func (d *Document) failed() []job.Result {
	var failed []job.Result
	for _, r := range d.Results {
		if r.Err != "" {
			failed = append(failed, r)
		}
	}
	return failed
}
