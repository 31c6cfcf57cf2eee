package drops

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxNames is the maximum number of names that Names.String lists. It keeps log lines short.
const maxNames = 5

// Names counts dropped messages by name. It has at most as many keys as the game has declared
// calls and states.
type Names map[string]int

// String lists the names with the most messages, as in "300 × Mill.Grind, 2 × (control)", and
// the number of other names.
func (n Names) String() string {
	names := slices.SortedFunc(maps.Keys(n), func(a, b string) int {
		return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b))
	})
	var texts []string
	for _, name := range names[:min(len(names), maxNames)] {
		texts = append(texts, fmt.Sprintf("%d × %s", n[name], name))
	}
	if more := len(names) - maxNames; more > 0 {
		texts = append(texts, fmt.Sprintf("%d others", more))
	}
	return strings.Join(texts, ", ")
}
