package job

import (
	"fmt"
	"strconv"
)

// Rate formats a rate in bits per second, such as 10 Mbit/s.
func Rate(bits int64) string {
	if bits%1_000_000 == 0 {
		return fmt.Sprintf("%d Mbit/s", bits/1_000_000)
	}
	return fmt.Sprintf("%d kbit/s", bits/1000)
}

// Bytes formats a size, in KiB or MiB if it is a whole number of them.
func Bytes(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// Share formats a probability in percent.
func Share(p float64) string { return strconv.FormatFloat(p*100, 'g', 3, 64) + " %" }
