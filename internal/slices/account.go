package slices

// An Account is charged for what a peer makes a machine hold, in bytes of allocated memory.
// Machines may share an account, and its owner may charge it at any time. Its methods are
// safe for concurrent use and never wait.
type Account interface {
	// Hold charges n bytes of content for which credit promised room. If the credit or the
	// memory is used up, it charges nothing and returns false.
	//
	// Awaited bytes may use the room kept for transfers in progress, because no later message
	// can be delivered before they have arrived.
	Hold(n int64, awaited bool) bool
	// Drop is called when the machine no longer holds n bytes of content or when its owner
	// charges them elsewhere.
	Drop(n int64)
	// Borrow charges n bytes for which no credit promised room. If there is no memory, it
	// charges nothing and returns false.
	Borrow(n int64, awaited bool) bool
	// Repay is called when the machine no longer holds n borrowed bytes.
	Repay(n int64)
}

// Allocated returns the maximum heap memory that an allocation of n bytes takes.
//
// The runtime's size classes are at most 16 bytes apart below 64 bytes, and at most 3/16
// above (4,097 bytes take 4,864). An allocation of more than 32 KiB takes whole pages of 8
// KiB.
func Allocated(n int64) int64 {
	const largest, page = 32 << 10, 8 << 10
	if n > largest {
		return (n + page - 1) / page * page
	}
	return min(n+n*3/16+16, largest)
}

// ChunkBytes returns the memory in bytes that a chunk with the given number of slices takes.
func ChunkBytes(slices int) int64 { return Allocated(int64(slices * Size)) }
