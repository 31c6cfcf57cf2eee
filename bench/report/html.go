package report

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// A picture is a chart with its caption.
type picture struct {
	Title, Note string
	SVG         template.HTML
}

// WriteHTML writes a page that needs no other files.
func (d *Document) WriteHTML(w io.Writer) error {
	pictures, err := d.pictures()
	if err != nil {
		return err
	}
	type part struct {
		Title, Note, Below string
		Head               []string
		Rows               [][]string
	}
	var parts []part
	for _, t := range d.tables() {
		parts = append(parts, part{t.title, t.note, t.below(), t.rows[0], t.rows[1:]})
	}
	return page.Execute(w, struct {
		Summary  string
		Pictures []picture
		Tables   []part
	}{d.summary(), pictures, parts})
}
