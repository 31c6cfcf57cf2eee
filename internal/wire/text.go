package wire

import "strings"

// ellipsis ends a text that was cut.
const ellipsis = "…"

// CutText shortens a text to at most limit bytes. It doesn't split a character, and ends a text
// that it has shortened with an ellipsis. Bytes that aren't UTF-8 are removed.
func CutText(text string, limit int) string {
	switch {
	case len(text) <= limit:
		return strings.ToValidUTF8(text, "")
	case limit < len(ellipsis):
		return strings.ToValidUTF8(text[:limit], "")
	}
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}
