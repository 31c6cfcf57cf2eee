package recovery

import "math/bits"

// WindowSize is the number of packet numbers that a [Window] remembers, counting back from the
// largest.
const WindowSize = 1 << 13

// A Window is a sliding-window bitmap of the packet numbers that were received. Its owner uses
// it to reject duplicates and replays, and to build acks.
type Window struct {
	Next  uint64 // one more than the largest number received
	words [WindowSize / 64]uint64
}

// Below reports whether n is so old that we can't tell if it is a duplicate.
func (w *Window) Below(n uint64) bool { return n+WindowSize < w.Next }

// Has reports whether n, which must not be below the window, was received.
func (w *Window) Has(n uint64) bool {
	return n < w.Next && w.words[n/64%uint64(len(w.words))]&(1<<(n%64)) != 0
}

// Mark records that n, which must not be below the window, was received.
func (w *Window) Mark(n uint64) {
	if n >= w.Next {
		w.clear(n)
		w.Next = n + 1
	}
	w.words[n/64%uint64(len(w.words))] |= 1 << (n % 64)
}

// clear clears the bits of the numbers from Next to n. It does so a word at a time, because a peer
// may skip any number of packet numbers.
func (w *Window) clear(n uint64) {
	if n-w.Next >= WindowSize {
		w.words = [WindowSize / 64]uint64{}
		return
	}
	for i := w.Next; i <= n; {
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

// Run returns the length of the run of numbers from n down, but not below floor, of which either
// all or none were received.
func (w *Window) Run(n, floor uint64) uint64 {
	received := w.Has(n)
	length := uint64(0)
	for {
		word := w.words[n/64%uint64(len(w.words))]
		if !received {
			word = ^word
		}
		// Count the bits from n's down that are the same as n's.
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

// Floor returns the smallest number that the window still remembers.
func (w *Window) Floor() uint64 { return w.Next - min(w.Next, WindowSize) }
