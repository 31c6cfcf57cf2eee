package report

import (
	"bytes"
	"html/template"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const width = 12 * vg.Inch

func init() { plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"} }

// newPlot has no title: the page has captions.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.Legend.Top, p.Legend.Left = true, true
	return p
}

// legendWidth stands free of curves.
const legendWidth = 2 * vg.Inch

// svg draws plots above each other as one element for a page, the legend of the first beside them.
func svg(height vg.Length, plots ...*plot.Plot) (template.HTML, error) {
	c := vgsvg.NewWith(vgsvg.UseWH(width, height*vg.Length(len(plots))))
	whole := draw.New(c)
	legend, right := plots[0].Legend, vg.Length(0)
	if legend.Rectangle(whole).Size().Y > 0 {
		right = legendWidth
		legend.Draw(draw.Crop(whole, whole.Max.X-legendWidth, 0, 0, -vg.Points(8)))
	}
	for i, p := range plots {
		p.Legend = plot.NewLegend()
		top := vg.Length(i) * height
		p.Draw(draw.Crop(whole, 0, -right, whole.Max.Y-top-height, -top))
	}
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	// What stands before the element belongs to files.
	text := b.Bytes()
	return template.HTML(text[bytes.Index(text, []byte("<svg")):]), nil
}
