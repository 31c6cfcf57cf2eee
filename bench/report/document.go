// Package report writes what was measured: as JSON with every raw sample, as Markdown, and as a page.
package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/bench/peer"
)

// Document is one run of the bench.
type Document struct {
	Date       time.Time
	Took       time.Duration
	Machine    Machine
	Contenders []Contender
	Results    []job.Result
}

// Contender is what the report says about one.
type Contender struct{ Name, Version, Settings string }

// New begins a document.
func New(now time.Time) *Document {
	d := &Document{Date: now.UTC().Truncate(time.Second), Machine: thisMachine()}
	for _, p := range peer.All() {
		d.Contenders = append(d.Contenders, Contender{p.Name, version(p.Module), p.Settings})
	}
	return d
}

// Add files a result.
func (d *Document) Add(r job.Result) { d.Results = append(d.Results, r) }

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
