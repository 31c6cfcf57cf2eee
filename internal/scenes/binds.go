package scenes

import "strings"

// binds are why rows miss their bounds, by a part of their names; the first that fits counts.
var binds = []struct{ part, why string }{
	{"with bbr, queue 0.125", "A model that takes no notice of loss fills a queue of an eighth until 5 % and more are lost; who answers losses as New Reno does gets a thirtieth, New Reno itself as well."},
	{"policed", "A policer without a queue drops what is over its rate, and shows nothing before."},
}

// bound gives rows what binds them.
func bound(rows []Row) []Row {
	for i := range rows {
		rows[i].Binds = why(rows[i].Name())
	}
	return rows
}

func why(name string) string {
	for _, b := range binds {
		if strings.Contains(name, b.part) {
			return b.why
		}
	}
	return ""
}
