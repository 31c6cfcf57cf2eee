package statnet

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// Widths in characters.
	labelWidth = 16
	cellWidth  = 13
	// Width is the longest that a line can be, which is enough for a label and six cells.
	Width = 100
)

// A Table is the text of a table, built line by line. The zero Table is empty.
type Table struct{ text strings.Builder }

// Row adds a line with a label and cells, each of which is right-aligned in its column.
func (t *Table) Row(label string, cells ...string) {
	line := padRight(label, labelWidth)
	for _, cell := range cells {
		line += padLeft(cell, cellWidth)
	}
	t.line(line)
}

// List adds a label and its items, separated by commas, on as many lines as needed.
func (t *Table) List(label string, items ...string) {
	line := padRight(label, labelWidth) + "  "
	for i, item := range items {
		if i < len(items)-1 {
			item += ", "
		}
		// The last space of a line may exceed the width, because it will be trimmed.
		full := utf8.RuneCountInString(line)+utf8.RuneCountInString(item) > Width+1
		if full && strings.TrimSpace(line) != label {
			t.line(line)
			line = padRight("", labelWidth) + "  "
		}
		line += item
	}
	t.line(line)
}

// A Column is one of the columns of [Table.Columns].
type Column struct {
	Width int
	Left  bool // the text is aligned to the left
}

// Columns adds a line of cells in the given columns.
func (t *Table) Columns(columns []Column, cells ...string) {
	line := ""
	for i, c := range columns {
		if c.Left {
			line += padRight(truncate(cells[i], c.Width-1), c.Width)
		} else {
			line += padLeft(cells[i], c.Width)
		}
	}
	t.line(line)
}

// String returns the lines, each with a newline.
func (t *Table) String() string { return t.text.String() }

// line adds a line. It replaces characters that a terminal would not print, because the line may
// contain text from a peer.
func (t *Table) line(s string) {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
	t.text.WriteString(strings.TrimRight(truncate(s, Width), " "))
	t.text.WriteByte('\n')
}

// padRight and padLeft pad s to width characters.
func padRight(s string, width int) string { return fmt.Sprintf("%-*s", width, s) }
func padLeft(s string, width int) string  { return fmt.Sprintf("%*s", width, s) }

// truncate shortens s to limit characters, the last of which is an ellipsis, if it has more.
func truncate(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + "…"
}
