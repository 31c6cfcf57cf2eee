package statnet

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	labelWidth = 16
	cellWidth  = 13
	// Width is how many characters a line has at most: a label and six cells fit.
	Width = 100
)

// Table builds the text of a table, line by line. The zero Table is empty.
type Table struct{ text strings.Builder }

// Row adds a line of a label and cells, each of which stands at the right of its column.
func (t *Table) Row(label string, cells ...string) {
	line := left(label, labelWidth)
	for _, cell := range cells {
		line += right(cell, cellWidth)
	}
	t.line(line)
}

// List adds a label and what belongs to it, separated by commas, on as many lines as it takes.
func (t *Table) List(label string, items ...string) {
	line := left(label, labelWidth) + "  "
	for i, item := range items {
		if i < len(items)-1 {
			item += ", "
		}
		if utf8.RuneCountInString(line)+utf8.RuneCountInString(item) > Width+1 && strings.TrimSpace(line) != label { // a space may stick out
			t.line(line)
			line = left("", labelWidth) + "  "
		}
		line += item
	}
	t.line(line)
}

// Column is one of the columns of [Table.Columns].
type Column struct {
	Width int
	Left  bool // the text stands at the left
}

// Columns adds a line of cells in columns of their own.
func (t *Table) Columns(columns []Column, cells ...string) {
	line := ""
	for i, c := range columns {
		if c.Left {
			line += left(cut(cells[i], c.Width-1), c.Width)
		} else {
			line += right(cells[i], c.Width)
		}
	}
	t.line(line)
}

// String returns the lines, each with its end.
func (t *Table) String() string { return t.text.String() }

// line ends a line. A peer's text in it may hold anything: what a terminal would not print is shown as such.
func (t *Table) line(s string) {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
	t.text.WriteString(strings.TrimRight(cut(s, Width), " "))
	t.text.WriteByte('\n')
}

func left(s string, width int) string  { return fmt.Sprintf("%-*s", width, s) }
func right(s string, width int) string { return fmt.Sprintf("%*s", width, s) }

// cut shortens s to most characters, the last of which then shows that it was cut.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
