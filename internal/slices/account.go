package slices

// An Account is charged for what a peer makes a machine hold, in bytes of allocated memory.
// Machines may share one, and its owner may charge it at any time. Its methods are safe for
// concurrent use and never wait.
type Account interface {
	// Hold charges for n bytes of content, for which credit has promised room. It charges
	// nothing and returns false if the credit or the memory is used up.
	//
	// If the content is awaited, it may use the room that is reserved for transfers in progress,
	// because no later message can be delivered before it has arrived.
	Hold(n int64, awaited bool) bool

	// Drop is called when the machine no longer holds n bytes of content, or when its owner
	// charges them elsewhere.
	Drop(n int64)

	// Borrow charges for n bytes that no credit has promised room for. It charges nothing and
	// returns false if there's no memory. If reserve is set, it may use the reserved room as well.
	Borrow(n int64, reserve bool) bool

	// Repay is called when the machine no longer holds n bytes that it borrowed without reserve.
	Repay(n int64)

	// Return is called when the machine no longer holds n bytes that it borrowed with reserve set.
	// They become part of the reserved room again, as far as they came from there.
	Return(n int64)
}

// Allocated returns the maximum size of the heap memory that an allocation of n bytes uses.
//
// The runtime's size classes are up to 16 bytes apart below 64 bytes, and up to 3/16 above that
// (4,097 bytes use 4,864). Allocations of more than 32 KiB use whole pages of 8 KiB.
func Allocated(n int64) int64 {
	const largest, page = 32 << 10, 8 << 10
	if n > largest {
		return (n + page - 1) / page * page
	}
	return min(n+n*3/16+16, largest)
}

// ChunkBytes returns the number of bytes of memory that a chunk with that many slices uses.
func ChunkBytes(count int) int64 { return Allocated(int64(count * Size)) }
