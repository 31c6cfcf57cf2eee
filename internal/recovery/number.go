package recovery

// Number restores the high bits of a truncated number, of which only the lowest width bits were
// sent. It returns the number nearest to expected (RFC 9000, appendix A.3). Numbers are below 2^62.
func Number(expected, truncated uint64, width int) uint64 {
	window := uint64(1) << width
	half, mask := window/2, window-1
	candidate := expected&^mask | truncated
	switch {
	case candidate+half <= expected && candidate < 1<<62-window:
		return candidate + window
	case candidate > expected+half && candidate >= window:
		return candidate - window
	}
	return candidate
}
