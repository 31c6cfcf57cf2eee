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

	// Drop is called when the machine doesn't hold n bytes of content any more, or when its
	// owner charges them elsewhere.
	Drop(n int64)

	// Borrow charges for n bytes that no credit has promised room for. It charges nothing and
	// returns false if there's no memory.
	Borrow(n int64, awaited bool) bool

	// Repay is called when the machine doesn't hold n borrowed bytes any more.
	Repay(n int64)
}

// Allocated returns how much heap memory an allocation of n bytes can take.
//
// The runtime's size classes are up to 16 bytes apart below 64 bytes, and up to 3/16 above that
// (4,097 bytes take 4,864). More than 32 KiB take whole pages of 8 KiB.
func Allocated(n int64) int64 {
	const largest, page = 32 << 10, 8 << 10
	if n > largest {
		return (n + page - 1) / page * page
	}
	return min(n+n*3/16+16, largest)
}

// ChunkBytes returns how much memory a chunk with that many slices takes, in bytes.
func ChunkBytes(slices int) int64 { return Allocated(int64(slices * Size)) }
