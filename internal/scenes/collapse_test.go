package scenes

import (
	"strings"
	"testing"

	"github.com/quivernet/quiver/internal/testkit"
)

// collapse is by how much a figure may miss its bound in one run with one seed: a median of many is what the bound holds
// for, and a collapse is far beyond it.
const collapse = 4

// missed are figures that the controller does not reach, by a part of the row's name, and what binds them. They are in the
// report's table all the same.
var missed = map[string]string{
	"with bbr, queue 0.125": "a model that takes no notice of loss fills a queue of an eighth until 5 % and more are lost; who answers losses as New Reno does gets a thirtieth, New Reno itself as well",
	"within 100 ms":         "a train shows the rate of the link and not who else begins: each sends an eighth of the product and more before it hears of the others",
	"policed":               "a policer without a queue drops what is over its rate, and shows nothing before",
}

// TestNoCollapse plays an eighth of the table, drawn anew each time, and holds that nothing is far beyond its bounds.
func TestNoCollapse(t *testing.T) {
	seed := testkit.Seed(t)
	for i, row := range Table() {
		if (uint64(i)*0x9E3779B97F4A7C15+seed)>>61 != 0 || row.misses() {
			continue
		}
		for _, f := range row.Play(seed) {
			f.Least, f.Most = f.Least/collapse, f.Most*collapse
			if !f.Held() {
				t.Errorf("%s: %v", row.name(), f)
			}
		}
	}
}

func (row Row) misses() bool {
	for part := range missed {
		if strings.Contains(row.name(), part) {
			return true
		}
	}
	return false
}

// TestNobodyTakesAll plays scenes in which one of eight took up to 17 of 20 Mbit/s for ever: a short queue that others kept
// full looked to it like jitter, and its losses like random ones.
func TestNobodyTakesAll(t *testing.T) {
	for _, row := range Table() {
		if row.Scene.Name != "8 one by one, queue 0.125 products" {
			continue
		}
		for _, seed := range []uint64{118, 122, 138, 146, 158, 159} {
			rates := Run(row.Scene, seed).Rates(Ours, 19*second, 29*second)
			if Jain(rates) < 0.8 {
				t.Errorf("seed %d: %.3g bit/s", seed, rates)
			}
		}
	}
}
