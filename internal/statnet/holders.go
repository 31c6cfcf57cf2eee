package statnet

import (
	"fmt"
	"strings"
)

// maxHolders bounds the text of [Holders], and with it the close reason.
const maxHolders = 5

// Holders lists what fills a reliable buffer, as UE prints it on ReliableBufferOverflow: each name, in the order in which it first
// appeared.
type Holders struct{ list []holder }

// holder is one name's share of a reliable buffer.
type holder struct {
	name           string
	calls, entries int
}

// Add adds a call that takes a number of entries of the buffer.
func (h *Holders) Add(name string, entries int) {
	for i := range h.list {
		if h.list[i].name == name {
			h.list[i].calls++
			h.list[i].entries += entries
			return
		}
	}
	h.list = append(h.list, holder{name, 1, entries})
}

// String returns the first of them, with their calls and entries.
func (h *Holders) String() string {
	var text strings.Builder
	for i, one := range h.list[:min(len(h.list), maxHolders)] {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "%d × %s (%s)", one.calls, one.name, Plural(one.entries, "entry", "entries"))
	}
	if more := len(h.list) - maxHolders; more > 0 {
		text.WriteString(" and " + Plural(more, "other method", "other methods"))
	}
	return text.String()
}
