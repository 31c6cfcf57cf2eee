// Package report writes what was measured: as JSON with every raw sample, as Markdown, and as a page.
package report

import (
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
)

// Document is one run of the bench.
type Document struct {
	Machine    Machine
	Sittings   []Sitting
	Contenders []Contender
	Results    []job.Result
}

// Sitting is the run, or what resumed it.
type Sitting struct {
	Date     time.Time
	Took     time.Duration
	Revision string `json:",omitempty"` // of this repository
}

// Contender is what the report says about one.
type Contender struct{ Name, Version, Settings string }

// New begins a document.
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

// Rise ends it.
func (d *Document) Rise(took time.Duration) { d.Sittings[len(d.Sittings)-1].Took = took }

// Lacks returns those of the jobs of which there are no figures. A cell that was cut is not run again.
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

// Add files a result, in place of one without figures.
func (d *Document) Add(r job.Result) {
	d.Results = slices.DeleteFunc(d.Results, func(old job.Result) bool { return old.Err != "" && old.Job == r.Job })
	d.Results = append(d.Results, r)
}

// WriteJSON writes all there is.
func (d *Document) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(d)
}

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(r io.Reader) (*Document, error) {
	d := new(Document)
	return d, json.NewDecoder(r).Decode(d)
}

// failed returns what has no figures.
func (d *Document) failed() []job.Result {
	var failed []job.Result
	for _, r := range d.Results {
		if r.Err != "" {
			failed = append(failed, r)
		}
	}
	return failed
}
