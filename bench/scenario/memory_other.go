//go:build !linux

package scenario

// resident and peakResident are not known here.
func resident() int64     { return 0 }
func peakResident() int64 { return 0 }
