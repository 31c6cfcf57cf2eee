package report

import (
	"encoding/json"
	"math"
	"time"

	"github.com/quivernet/quiver/bench/scene"
	"github.com/quivernet/quiver/internal/scenes"
)

// sceneDocument is what Scenes.WriteJSON writes. README.md describes it.
type sceneDocument struct {
	Date     time.Time
	Revision string // "" = unknown
	Go       string
	Seeds    []uint64
	Rows     []sceneRow
}

type sceneRow struct {
	Family, Scene string
	Met           bool
	Figures       []sceneFigure
	Others        []sceneOther `json:",omitempty"`
	Binds         string       `json:",omitempty"`
}

type sceneOther struct {
	Kind    string
	Figures []sceneFigure
}

type sceneFigure struct {
	Name        string
	Value       number
	Least, Most float64  `json:",omitempty"` // absent = no bound
	Worst       bool     `json:",omitempty"` // Value is the greatest of Each, not the median
	Each        []number // by seed
}

// A number is null in JSON if it is infinite or NaN, for example because it is a share of zero.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(n), 0) || math.IsNaN(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func rowOf(o scene.Outcome) sceneRow {
	row := sceneRow{Family: o.Row.Family, Scene: o.Row.Scene.Name, Met: !o.Missed(), Figures: figuresOf(o.Figures)}
	for _, other := range o.Others {
		row.Others = append(row.Others, sceneOther{other.Kind.String(), figuresOf(other.Figures)})
	}
	if o.Missed() {
		row.Binds = o.Row.Binds
	}
	return row
}

func figuresOf(figures []scenes.Figure) []sceneFigure {
	all := make([]sceneFigure, 0, len(figures))
	for _, f := range figures {
		each := make([]number, 0, len(f.Each))
		for _, v := range f.Each {
			each = append(each, number(v))
		}
		all = append(all, sceneFigure{f.Name, number(f.Value), f.Least, f.Most, f.Worst, each})
	}
	return all
}
