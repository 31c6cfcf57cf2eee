package pool

import (
	"os"
	"strconv"
	"strings"
)

// cores counts how the machine's cores have spent their time, in ticks of the kernel. It is zero if
// the system doesn't report that.
type cores struct{ all, stolen uint64 }

// readCores reads Linux's counters.
func readCores() cores {
	text, _ := os.ReadFile("/proc/stat")
	return parseCores(string(text))
}

// parseCores parses the first line of proc(5)'s stat: user, nice, system, idle,
// iowait, irq, softirq, steal, and two that are included in user and nice.
func parseCores(text string) (c cores) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return cores{}
	}
	for i, field := range fields[1:9] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return cores{}
		}
		c.all += n
		if i == 7 {
			c.stolen = n
		}
	}
	return c
}

// stolenSince returns the share of the cores' time that the host gave to others
// since before. ok is false if that is unknown.
func (c cores) stolenSince(before cores) (share float64, ok bool) {
	if c.all <= before.all || before.all == 0 || c.stolen < before.stolen {
		return 0, false
	}
	return float64(c.stolen-before.stolen) / float64(c.all-before.all), true
}
