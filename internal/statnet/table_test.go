package statnet

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	var table Table
	table.Row("", "in", "out")
	table.Row("Rate", Rate(12_345), Rate(999))
	table.List("Drops", "Late 3", "Duplicate 4")
	table.Columns([]Column{{Width: 8, Left: true}, {Width: 6}}, "much too long", "1")
	require.Equal(t, ""+
		"                           in          out\n"+
		"Rate                12.3 kB/s      999 B/s\n"+
		"Drops             Late 3, Duplicate 4\n"+
		"much t…      1\n", table.String())
}

func TestListsWrap(t *testing.T) {
	var table Table
	items := make([]string, 40)
	for i := range items {
		items[i] = "reason 12"
	}
	table.List("Drops", items...)
	lines := strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n")
	require.Len(t, lines, 6)
	for _, line := range lines {
		require.LessOrEqual(t, len(line), Width)
	}
	require.Equal(t, 40, strings.Count(table.String(), "reason 12"))
	table.List("", strings.Repeat("x", 200))
	require.Contains(t, table.String(), "x…\n", "what fits no line is cut")
}

func TestUnits(t *testing.T) {
	require.Equal(t, "999 B", Bytes(999))
	require.Equal(t, "1.0 kB", Bytes(999.6))
	require.Equal(t, "1.5 kB", Bytes(1500))
	require.Equal(t, "1.0 MB", Bytes(999_960))
	require.Equal(t, "2.0 MB/s", Rate(2e6))
	require.Equal(t, "12.3 %", Percent(0.123))
	require.Equal(t, "0.5 ms", Ms(500*time.Microsecond))
	require.Equal(t, "0", Count(0))
	require.Equal(t, "999", Count(uint64(999)))
	require.Equal(t, "1,234,567", Count(1_234_567))
}

// TestLinesArePrintable: a peer's words change nothing but their own cell.
func TestLinesArePrintable(t *testing.T) {
	var table Table
	table.List("Carrier", "\x1b[2Jcleared\nWorld\xff")
	require.Equal(t, "Carrier           \uFFFD[2Jcleared\uFFFDWorld\uFFFD\n", table.String())
}
