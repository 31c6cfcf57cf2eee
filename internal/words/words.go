// Package words helps to write the texts of errors and logs.
package words

import (
	"fmt"
	"strings"
)

// ellipsis ends a text that was cut.
const ellipsis = "…"

// Cut shortens a text to at most limit bytes. It doesn't split a character, and ends a text that it
// has shortened with an ellipsis. Bytes that aren't UTF-8 are removed.
func Cut(text string, limit int) string {
	switch {
	case len(text) <= limit:
		return strings.ToValidUTF8(text, "")
	case limit < len(ellipsis):
		return strings.ToValidUTF8(text[:limit], "")
	}
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}

// Bytes formats a number of bytes: 1 byte, 2 bytes.
func Bytes[N integer](n N) string { return Plural(n, "byte", "bytes") }

type integer interface{ ~int | ~int64 | ~uint64 }

// Plural formats a number with its noun, and perhaps a verb: 1 entry is, 2 entries are.
func Plural[N integer](n N, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}
