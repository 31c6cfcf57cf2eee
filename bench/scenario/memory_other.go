//go:build !linux

package scenario

// resident and peakResident return 0, because they are unknown on this system.
func resident() int64     { return 0 }
func peakResident() int64 { return 0 }
