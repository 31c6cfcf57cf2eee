package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quivernet/quiver/bench/job"
)

// tables returns all tables of the report, including those of settings and failures.
func (d *Document) tables() []table {
	all := []table{d.settings()}
	for _, p := range d.panels() {
		all = append(all, p.table())
	}
	all = append(all, d.figures()...)
	if failed := d.failed(); len(failed) > 0 {
		t := table{title: "Without figures", rows: [][]string{{"job", "why"}}}
		for _, r := range failed {
			t.rows = append(t.rows, []string{r.Job.String(), r.Err})
		}
		all = append(all, t)
	}
	return all
}

func (d *Document) settings() table {
	t := table{title: "Contenders", note: "Each with windows that are large enough for the path; where one has none, that is said.", rows: [][]string{{"contender", "version", "settings"}}}
	for _, c := range d.Contenders {
		t.rows = append(t.rows, []string{c.Name, c.Version, c.Settings})
	}
	return t
}

// summary returns the text above all tables.
func (d *Document) summary() string {
	text := fmt.Sprintf("%d measurements on %s.", len(d.Results), d.Machine)
	for _, s := range d.Sittings {
		text += fmt.Sprintf(" %s: %s, %v.", s.Date.Format("2 January 2006 15:04"), named(s.Revision), s.Took.Round(time.Second))
	}
	if stolen := d.stolen(); stolen != "" {
		text += " " + stolen
	}
	return text
}

// stolen returns how much CPU time the host took from the machine during runs in real time, or ""
// if that is unknown.
func (d *Document) stolen() string {
	var shares []float64
	for _, r := range d.Results {
		if share, ok := r.Values[job.Stolen]; ok {
			shares = append(shares, share)
		}
	}
	if len(shares) == 0 {
		return ""
	}
	slices.Sort(shares)
	return fmt.Sprintf("In %d runs in real time the host gave %s of the cores' time to others in the median, %s at most.",
		len(shares), job.Share(shares[len(shares)/2]), job.Share(shares[len(shares)-1]))
}

// WriteMarkdown writes the tables.
func (d *Document) WriteMarkdown(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "# Bench\n\n%s\n", d.summary()); err != nil {
		return err
	}
	for _, t := range d.tables() {
		if err := t.markdown(w); err != nil {
			return err
		}
	}
	return nil
}

func (t table) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n", t.title)
	if t.note != "" {
		fmt.Fprintf(&b, "%s\n\n", t.note)
	}
	escape := strings.NewReplacer("|", "\\|", "\n", " ")
	for i, row := range t.rows {
		for _, text := range row {
			fmt.Fprintf(&b, "| %s ", escape.Replace(text))
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	if below := t.below(); below != "" {
		fmt.Fprintf(&b, "\n%s\n", below)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
