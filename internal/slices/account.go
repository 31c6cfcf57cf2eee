package slices

// Account is charged for what a peer makes a machine hold, in bytes of real memory. Machines may share one, and its owner may
// charge it at any time, so it is safe from any goroutine and never waits.
type Account interface {
	// Hold charges n bytes of content that was promised room. It is false, and charges nothing, when the promise or the
	// memory is used up. Awaited bytes may use the room that is kept so that what has begun goes on: nothing behind them
	// comes in before they do.
	Hold(n int64, awaited bool) bool
	// Drop notes that n bytes of content are held no more, or that somebody else accounts for them.
	Drop(n int64)
	// Borrow charges n bytes beside all promises, or nothing and is false.
	Borrow(n int64, awaited bool) bool
	// Repay notes that n borrowed bytes are held no more.
	Repay(n int64)
}

// Allocated is what n bytes of heap take at the most: from 64 bytes on the runtime's size classes are 3/16 apart or less (4,097
// bytes take 4,864), below it 16 bytes, and what is larger than 32 KiB is whole pages of 8 KiB.
func Allocated(n int64) int64 {
	const largest, page = 32 << 10, 8 << 10
	if n > largest {
		return (n + page - 1) / page * page
	}
	return min(n+n*3/16+16, largest)
}

// ChunkBytes is the memory of a chunk of so many slices.
func ChunkBytes(slices int) int64 { return Allocated(int64(slices * Size)) }

// spareBytes is what the memory of a chunk is larger than so many slices need, because it served another before.
func spareBytes(data []byte, slices int) int64 {
	return max(0, Allocated(int64(cap(data)))-ChunkBytes(slices))
}
