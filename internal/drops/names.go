package drops

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// mostNames bounds the text of [Names], and with it a line of the log.
const mostNames = 5

// Names counts dropped messages by what they are called. There are no more names than a game has declared.
type Names map[string]int

// String lists the names with most messages, and how many others there are: "300 × Mill.Grind, 2 × (control)".
func (n Names) String() string {
	names := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) })
	var texts []string
	for _, name := range names[:min(len(names), mostNames)] {
		texts = append(texts, fmt.Sprintf("%d × %s", n[name], name))
	}
	if more := len(names) - mostNames; more > 0 {
		texts = append(texts, fmt.Sprintf("%d others", more))
	}
	return strings.Join(texts, ", ")
}
