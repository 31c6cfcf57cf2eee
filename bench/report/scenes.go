package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/quivernet/quiver/bench/scene"
	"github.com/quivernet/quiver/internal/scenes"
)

// Scenes is the report on rows of internal/scenes.
type Scenes struct {
	Date     time.Time
	Revision string // revision of this repository
	Seeds    scene.Seeds
	Outcomes []scene.Outcome
	Pictures []File
}

// A File is a picture in a separate file.
type File struct{ Title, Name string }

// NewScenes returns a report without outcomes.
func NewScenes(now time.Time, seeds scene.Seeds) *Scenes {
	return &Scenes{Date: now.UTC(), Revision: revision(), Seeds: seeds}
}

// Line returns an outcome as one line, which begins with '!' if a figure misses a bound.
func Line(o scene.Outcome) string {
	text := "  "
	if o.Missed() {
		text = "! "
	}
	text += o.Row.Name()
	for _, f := range o.Figures {
		text += ", " + f.String()
	}
	return text
}

const scenesIntro = `Quiver's rate control in weather and in company: transfers over the sealed carrier, and models of New Reno, CUBIC and BBR, on
pure machines in virtual time, so that a revision and a seed give the same figures on any machine. Each figure is the median over the
seeds, *worst time* the greatest, its bound behind it; **bold** is outside it. Time is over ideal, RTT/2 and the bytes at the rate that random loss leaves; wire is
bytes on the wire over payload; parts and shares are of goodput. Where a bound is missed, *others* has the same figures with New Reno,
CUBIC or BBR in our place, over the same seeds. These models draw nothing at random, so each of these flows begins up to 100 ms later, by
the seed, and otherwise as the scene says; *binds* says what stands in the way.`

// WriteMarkdown writes a table of the criteria of RFC 9743, and one for each family of rows.
func (s *Scenes) WriteMarkdown(w io.Writer) error {
	_, err := fmt.Fprintf(w, "# Scenes\n\n%s\n\n%s: %s, %s, %s, %s rows meet their bounds%s.\n",
		scenesIntro, s.Date.Format("2 January 2006"), named(s.Revision), runtime.Version(), s.Seeds, s.met(nil), s.rest())
	if err != nil {
		return err
	}
	for _, t := range append([]table{s.sectionTable()}, s.families()...) {
		if err := t.markdown(w); err != nil {
			return err
		}
	}
	return s.showPictures(w)
}

// WriteJSON writes the outcomes for programs.
func (s *Scenes) WriteJSON(w io.Writer) error {
	d := sceneDocument{Date: s.Date, Revision: s.Revision, Go: runtime.Version(), Seeds: s.Seeds.All()}
	for _, o := range s.Outcomes {
		d.Rows = append(d.Rows, rowOf(o))
	}
	return json.NewEncoder(w).Encode(d)
}

// Stamp returns the revision and the seed with which the scenes of pictures are played.
func (s *Scenes) Stamp() string {
	return fmt.Sprintf("%s, seed %d", named(s.Revision), s.Seeds.First)
}

// Draw plays a row with the first seed and writes a picture of it as SVG. It shows the goodput of
// each flow, the queue, and the share of each flow's packets that was lost, over time.
func (s *Scenes) Draw(w io.Writer, row scenes.Row) error {
	c := vgsvg.NewWith(vgsvg.UseWH(sceneWidth, sceneHeight))
	if err := newView(row, s.Seeds.First, s.Stamp()).draw(draw.New(c)); err != nil {
		return err
	}
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	_, err := w.Write(withFonts(b.Bytes()))
	return err
}

// met returns how many of the rows for which ask returns true meet their bounds. If ask is nil, it
// counts all rows.
func (s *Scenes) met(ask func(o scene.Outcome) bool) string {
	met, all := 0, 0
	for _, o := range s.Outcomes {
		if ask == nil || ask(o) {
			all++
			if !o.Missed() {
				met++
			}
		}
	}
	return fmt.Sprintf("%d of %d", met, all)
}

// open begins a reason that neither proves the bound unreachable nor shows that another stack
// misses it too.
const open = "Open"

// rest returns how many of the rows that miss a bound have a known reason, and how many are open.
func (s *Scenes) rest() string {
	explained, unexplained := 0, 0
	for _, o := range s.Outcomes {
		if !o.Missed() {
			continue
		}
		if why := o.Row.Binds; why == "" || strings.HasPrefix(why, open) {
			unexplained++
		} else {
			explained++
		}
	}
	if explained+unexplained == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of the others have a proof or a peer that misses the bound as well, %d are open", explained, unexplained)
}

// families returns a table for each family, in the order of the rows.
func (s *Scenes) families() (tables []table) {
	for i := 0; i < len(s.Outcomes); {
		end := i
		for end < len(s.Outcomes) && s.Outcomes[end].Row.Family == s.Outcomes[i].Row.Family {
			end++
		}
		tables = append(tables, familyTable(s.Outcomes[i:end]))
		i = end
	}
	return tables
}

func familyTable(outcomes []scene.Outcome) table {
	family, names := outcomes[0].Row.Family, figureNames(outcomes)
	t := table{title: strings.ToUpper(family[:1]) + family[1:], rows: [][]string{append([]string{"scene"}, names...)}}
	missed := slices.ContainsFunc(outcomes, scene.Outcome.Missed)
	if missed {
		t.rows[0] = append(t.rows[0], "others", "binds")
	}
	var reasons []string
	for _, o := range outcomes {
		cells := figureCells(o, names)
		if missed {
			cells = append(cells, others(o), reason(o, &reasons))
		}
		t.rows = append(t.rows, cells)
	}
	t.note = strings.Join(reasons, "  \n")
	return t
}

// figureCells returns the name of a scene and its figures.
func figureCells(o scene.Outcome, names []string) []string {
	cells := []string{o.Row.Scene.Name}
	for _, name := range names {
		cells = append(cells, figureCell(o.Figures, name))
	}
	return cells
}

// figureNames returns the distinct names of the figures of all rows of a family.
func figureNames(outcomes []scene.Outcome) (names []string) {
	for _, o := range outcomes {
		for _, f := range o.Figures {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

// figureCell returns a figure and its bounds as text, or "" if the row has no figure of that name.
func figureCell(figures []scenes.Figure, name string) string {
	i := slices.IndexFunc(figures, func(f scenes.Figure) bool { return f.Name == name })
	if i < 0 {
		return ""
	}
	f := figures[i]
	text := fmt.Sprintf("%.3g", f.Value)
	if !f.Held() {
		text = "**" + text + "**"
	}
	if f.Most != 0 {
		text += fmt.Sprintf(" ≤ %.3g", f.Most)
	}
	if f.Least != 0 {
		text += fmt.Sprintf(" ≥ %.3g", f.Least)
	}
	return text
}

// others returns the values with flows of other kinds for each figure that misses a bound.
func others(o scene.Outcome) string {
	var texts []string
	for i, f := range o.Figures {
		if f.Held() || len(o.Others) == 0 {
			continue
		}
		var values []string
		for _, other := range o.Others {
			values = append(values, fmt.Sprintf("%v %.3g", other.Kind, other.Figures[i].Value))
		}
		texts = append(texts, f.Name+": "+strings.Join(values, ", "))
	}
	return strings.Join(texts, "; ")
}

// reason returns the letter of the reason why a row misses a bound, and adds the reason to those
// above the table if it is new.
func reason(o scene.Outcome, reasons *[]string) string {
	if !o.Missed() {
		return ""
	}
	why := o.Row.Binds
	if why == "" {
		why = open + ": not yet investigated."
	}
	for i, known := range *reasons {
		if strings.HasSuffix(known, ": "+why) {
			return letter(i)
		}
	}
	*reasons = append(*reasons, letter(len(*reasons))+": "+why)
	return letter(len(*reasons) - 1)
}

func letter(i int) string { return string(rune('a' + i)) }

func (s *Scenes) showPictures(w io.Writer) error {
	if len(s.Pictures) == 0 {
		return nil
	}
	text := fmt.Sprintf("\n## Pictures\n\nSingle runs, with seed %d.\n", s.Seeds.First)
	for _, f := range s.Pictures {
		text += fmt.Sprintf("\n![%s](%s)\n", f.Title, f.Name)
	}
	_, err := io.WriteString(w, text)
	return err
}
