package sealed

import "math/bits"

// windowSize is how many packet numbers, up to the largest, are remembered; packets below are dropped.
const windowSize = 1 << 13

// window remembers which of the newest packet numbers were received, to refuse replays and to make acks.
type window struct {
	words [windowSize / 64]uint64
	next  uint64 // one above the largest
}

// below reports whether n is too old to be told from a replay.
func (w *window) below(n uint64) bool { return n+windowSize < w.next }

// has reports whether n, which is not below the window, was received.
func (w *window) has(n uint64) bool {
	return n < w.next && w.words[n/64%uint64(len(w.words))]&(1<<(n%64)) != 0
}

// mark notes that n, which is not below the window, was received.
func (w *window) mark(n uint64) {
	if n >= w.next {
		w.clear(n)
		w.next = n + 1
	}
	w.words[n/64%uint64(len(w.words))] |= 1 << (n % 64)
}

// clear forgets the old numbers in the places of those from next to n.
func (w *window) clear(n uint64) {
	if n-w.next >= windowSize {
		w.words = [windowSize / 64]uint64{}
		return
	}
	for i := w.next; i <= n; {
		word := &w.words[i/64%uint64(len(w.words))]
		if i%64 == 0 && n-i >= 63 {
			*word = 0
			i += 64
			continue
		}
		*word &^= 1 << (i % 64)
		i++
	}
}

// run returns how many numbers in a row, from n down to floor, were received, or are missing, as n is.
func (w *window) run(n, floor uint64) uint64 {
	received := w.has(n)
	length := uint64(0)
	for {
		word := w.words[n/64%uint64(len(w.words))]
		if !received {
			word = ^word
		}
		bit := n % 64
		same := min(uint64(bits.LeadingZeros64(^(word << (63 - bit)))), bit+1)
		length += same
		if n-floor < same {
			return length - (same - (n - floor + 1))
		}
		if same <= bit {
			return length
		}
		n -= same
	}
}

// floor returns the smallest number that is not below the window.
func (w *window) floor() uint64 {
	if w.next < windowSize {
		return 0
	}
	return w.next - windowSize
}
