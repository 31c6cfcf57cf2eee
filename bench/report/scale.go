package report

import "image/color"

// A scale goes from blue through near white to red. Its colours are light enough for black text on
// them, and can be distinguished by people who don't see green.
type scale struct{}

// stops are the colours of the scale, evenly spaced.
var stops = []color.NRGBA{{0x6a, 0xa7, 0xf0, 255}, {0xcf, 0xe3, 0xfb, 255}, {0xfb, 0xf3, 0xe0, 255}, {0xfb, 0xb8, 0x8c, 255}, {0xee, 0x6a, 0x5c, 255}}

const shades = 128

// Colors implements palette.Palette.
func (scale) Colors() []color.Color {
	all := make([]color.Color, shades)
	for i := range all {
		at := float64(i) / (shades - 1) * float64(len(stops)-1)
		n := min(int(at), len(stops)-2)
		all[i] = blend(stops[n], stops[n+1], at-float64(n))
	}
	return all
}

func blend(a, b color.NRGBA, share float64) color.NRGBA {
	mix := func(x, y uint8) uint8 { return uint8(float64(x)*(1-share) + float64(y)*share + 0.5) }
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}
