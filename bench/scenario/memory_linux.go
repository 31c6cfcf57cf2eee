package scenario

import (
	"bytes"
	"os"
	"strconv"
)

// resident and peakResident return the current and the peak resident size of this process in bytes.
func resident() int64     { return status("VmRSS:") }
func peakResident() int64 { return status("VmHWM:") }

func status(name string) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == name {
			kib, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			return kib << 10
		}
	}
	return 0
}
