package statnet

import (
	"fmt"
	"strconv"
	"time"
)

// Bytes formats a number of bytes, as kB or MB of 1,000 if that is shorter.
func Bytes(n float64) string {
	switch {
	case n < 999.5: // a larger number would round to 1000 B
		return fmt.Sprintf("%.0f B", n)
	case n < 999_950: // a larger number would round to 1000.0 kB
		return fmt.Sprintf("%.1f kB", n/1e3)
	}
	return fmt.Sprintf("%.1f MB", n/1e6)
}

// Rate formats bytes per second.
func Rate(n float64) string { return Bytes(n) + "/s" }

// Often formats a number of events per second.
func Often(n float64) string { return fmt.Sprintf("%.1f /s", n) }

// Percent formats a share from 0 to 1.
func Percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// Ms formats a time in milliseconds.
func Ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

// Count formats a number with commas between thousands.
func Count[T int | uint32 | uint64](n T) string {
	s := strconv.FormatUint(uint64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
