package report

import (
	"bytes"
	"html/template"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width = 12 * vg.Inch
	// legendWidth is the width of the legend beside the curves.
	legendWidth = 2.3 * vg.Inch
)

func init() {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
}

// newPlot returns a plot without a title, because the page has captions.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding = vg.Points(4)
	return p
}

// svg draws one plot as an element of a page, with its legend beside it.
func svg(height vg.Length, p *plot.Plot) (template.HTML, error) {
	c := vgsvg.NewWith(vgsvg.UseWH(width, height))
	whole := draw.New(c)
	legend, right := p.Legend, vg.Length(0)
	if legend.Rectangle(whole).Size().Y > 0 {
		right = legendWidth
		legend.Draw(draw.Crop(whole, whole.Max.X-legendWidth+vg.Points(12), 0, 0, -vg.Points(8)))
	}
	p.Legend = plot.NewLegend()
	p.Draw(draw.Crop(whole, 0, -right, 0, 0))
	return element(c)
}

// grid draws rows of plots of the same size.
func grid(height vg.Length, rows [][]*plot.Plot) (template.HTML, error) {
	c := vgsvg.NewWith(vgsvg.UseWH(width, height*vg.Length(len(rows))))
	tiles := draw.Tiles{Rows: len(rows), Cols: len(rows[0]), PadX: vg.Points(12), PadY: vg.Points(6)}
	for i, row := range plot.Align(rows, tiles, draw.New(c)) {
		for j, canvas := range row {
			rows[i][j].Draw(canvas)
		}
	}
	return element(c)
}

// element returns what was drawn, without the header of an SVG file.
func element(c *vgsvg.Canvas) (template.HTML, error) {
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	text := withFonts(b.Bytes())
	return template.HTML(text[bytes.Index(text, []byte("<svg")):]), nil
}

// withFonts adds fallbacks for readers who don't have the font that was used to measure the text.
func withFonts(svg []byte) []byte {
	return bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,sans-serif"))
}
