package statnet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quivernet/quiver/internal/words"
)

// maxHolders is the maximum number of methods that the text of [Holders] names, so that the text
// fits into a close reason.
const maxHolders = 5

// Holders lists the methods whose calls fill a reliable buffer, in the order of their first calls.
// Unreal Engine prints the same on ReliableBufferOverflow. The zero Holders is empty.
type Holders struct{ list []holder }

// holder is one method's share of a reliable buffer.
type holder struct {
	name           string
	calls, entries int // calls in the buffer and the entries that they use
}

// Add adds a call of the named method that uses that many entries of the buffer.
func (h *Holders) Add(name string, entries int) {
	i := slices.IndexFunc(h.list, func(one holder) bool { return one.name == name })
	if i < 0 {
		i = len(h.list)
		h.list = append(h.list, holder{name: name})
	}
	h.list[i].calls++
	h.list[i].entries += entries
}

// String returns the first maxHolders methods with their calls and entries, as in "3 × Fire
// (4 entries)", and the number of other methods.
func (h *Holders) String() string {
	var named []string
	for _, one := range h.list[:min(len(h.list), maxHolders)] {
		entries := words.Plural(one.entries, "entry", "entries")
		named = append(named, fmt.Sprintf("%d × %s (%s)", one.calls, one.name, entries))
	}
	text := strings.Join(named, ", ")
	if more := len(h.list) - maxHolders; more > 0 {
		text += " and " + words.Plural(more, "other method", "other methods")
	}
	return text
}
