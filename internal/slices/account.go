package slices

// Account is charged for what a peer makes a machine hold, in bytes of allocated memory. Machines may share an account, and its owner
// may charge it at any time: its methods are safe for concurrent use and never wait.
type Account interface {
	// Hold charges n bytes of content for which credit promised room. It is false, and charges nothing, when the credit or the
	// memory is used up. Awaited bytes may use the room that is kept for transfers under way, because no later message is handed
	// out before they have come.
	Hold(n int64, awaited bool) bool
	// Drop notes that the machine no longer holds n bytes of content, or that its owner accounts for them now.
	Drop(n int64)
	// Borrow charges n bytes for which no credit promised room. It is false, and charges nothing, when there is no memory.
	Borrow(n int64, awaited bool) bool
	// Repay notes that the machine no longer holds n borrowed bytes.
	Repay(n int64)
}

// Allocated returns how much heap an allocation of n bytes takes at most. The runtime's size classes are at most 16 bytes apart below
// 64 bytes, and at most 3/16 above (4,097 bytes take 4,864); an allocation of more than 32 KiB takes whole pages of 8 KiB.
func Allocated(n int64) int64 {
	const largest, page = 32 << 10, 8 << 10
	if n > largest {
		return (n + page - 1) / page * page
	}
	return min(n+n*3/16+16, largest)
}

// ChunkBytes returns how many bytes of memory a chunk with this number of slices takes.
func ChunkBytes(slices int) int64 { return Allocated(int64(slices * Size)) }
