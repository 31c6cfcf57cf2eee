package vital

import "github.com/quivernet/quiver/internal/recovery"

// An inbox holds the received chunks that wait for Next.
type inbox struct {
	chunks   recovery.Ring[queuedChunk]
	data     ring
	returned span // data last returned by take, which release frees

	// full is set when we drop a vital chunk because there's no room for it. We don't ask for
	// resends until there is.
	full bool
}

// halfFull reports whether more bytes would take more than half of the room.
func (i *inbox) halfFull(more int) bool {
	return i.chunks.Len() >= i.data.limit/chunkShare/2 || i.data.used+more > i.data.limit/2
}

// put adds a chunk. It returns false if there is no room.
func (i *inbox) put(chunk Chunk) bool {
	if i.chunks.Len() >= i.data.limit/chunkShare {
		return false
	}
	s, ok := i.data.put(chunk.Data)
	if !ok {
		return false
	}
	last := i.chunks.Push(firstPlaces)
	*last = queuedChunk{span: s, flags: chunk.Flags, sequence: chunk.Sequence}
	return true
}

// release frees what take has returned last. If the inbox was full and half of it is free now, it
// is no longer full, and release returns true.
func (i *inbox) release() (madeRoom bool) {
	i.data.free(i.returned)
	i.returned = span{}
	roomy := i.data.used < i.data.limit/2 && i.chunks.Len() < i.data.limit/chunkShare/2
	if !i.full || !roomy {
		return false
	}
	i.full = false
	return true
}

// take returns the next chunk, whose Data is valid until release. ok is false if there is none.
func (i *inbox) take() (chunk Chunk, ok bool) {
	if i.chunks.Len() == 0 {
		return Chunk{}, false
	}
	next := i.chunks.Take()
	i.returned = next.span
	return Chunk{Header{next.flags, next.size, next.sequence}, i.data.bytes(next.span)}, true
}
