// Package report writes the results as JSON with every raw sample, as Markdown, and as an HTML
// page.
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

// A Document holds the results of a run of the bench, which may have several sittings.
type Document struct {
	Machine    Machine
	Sittings   []Sitting
	Contenders []Contender
	Results    []job.Result
}

// A Sitting is one execution of the bench: the first, or one that resumed a run.
type Sitting struct {
	Date     time.Time
	Took     time.Duration
	Revision string `json:",omitempty"` // revision of this repository
}

// A Contender is a contender's description in the report.
type Contender struct{ Name, Version, Settings string }

// New returns a document with its first sitting.
func New(now time.Time) *Document {
	d := &Document{Machine: thisMachine()}
	for _, p := range peer.All() {
		d.Contenders = append(d.Contenders, Contender{p.Name, version(p.Module), p.Settings})
	}
	d.BeginSitting(now)
	return d
}

// BeginSitting begins the next sitting.
func (d *Document) BeginSitting(now time.Time) {
	d.Sittings = append(d.Sittings, Sitting{Date: now.UTC().Truncate(time.Second), Revision: revision()})
}

// EndSitting ends the newest sitting.
func (d *Document) EndSitting(took time.Duration) { d.Sittings[len(d.Sittings)-1].Took = took }

// Missing returns the jobs without figures, except for those of cells with a run that was cut.
func (d *Document) Missing(jobs []job.Job) []job.Job {
	done := make(map[string]bool) // by job or by cell
	for _, r := range d.Results {
		done[r.Job.String()] = r.Err == ""
		if r.Cut {
			done[r.Cell()] = true
		}
	}
	var missing []job.Job
	for _, j := range jobs {
		if !done[j.String()] && !done[j.Cell()] {
			missing = append(missing, j)
		}
	}
	return missing
}

// Add adds a result, which replaces one without figures.
func (d *Document) Add(r job.Result) {
	d.Results = slices.DeleteFunc(d.Results, func(old job.Result) bool { return old.Err != "" && old.Job == r.Job })
	for i, ms := range r.Samples {
		r.Samples[i] = math.Round(ms*1e4) / 1e4 // to 0.1 µs
	}
	d.Results = append(d.Results, r)
}

// WriteJSON writes the whole document, with one line for each result, so that two runs can be
// compared line by line.
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

// ReadJSON reads a document written by WriteJSON.
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
