package stream

import (
	"fmt"

	"github.com/quivernet/quiver/internal/codec"
)

// Limits of one RPC of the streamer.
const (
	// defaultRPCBytes is the article's 32 KiB: half of the largest bunch.
	defaultRPCBytes = 32 << 10
	// maxRPCBytes is the largest bunch. UE: net.MaxConstructedPartialBunchSizeBytes.
	maxRPCBytes = 65536
	// rpcOverhead is what each RPC keeps free for the method's id, a part's header, and the headers of msgpack's arrays.
	rpcOverhead = 64
	// maxElementBytes is the largest element: it travels alone in the largest RPC.
	maxElementBytes = maxRPCBytes - rpcOverhead
)

// elementsPerRPC returns how many elements of at most elementSize bytes go into one RPC of maxBytes (0: 32 KiB). An element that
// is larger than maxBytes travels alone.
func elementsPerRPC(maxBytes, elementSize int) (int, error) {
	if maxBytes == 0 {
		maxBytes = defaultRPCBytes
	}
	switch {
	case maxBytes < 0 || maxBytes > maxElementBytes:
		return 0, fmt.Errorf("MaxBytesPerRPC is %d, but one RPC holds 1 to %d bytes (a bunch of %d less %d for headers)",
			maxBytes, maxElementBytes, maxRPCBytes, rpcOverhead)
	case elementSize < 1:
		return 0, fmt.Errorf("element size %d is not positive", elementSize)
	case elementSize > maxElementBytes:
		return 0, fmt.Errorf("an element may take %d bytes, but one RPC holds %d (a bunch of %d less %d for headers); "+
			"lower its bounds or split it", elementSize, maxElementBytes, maxRPCBytes, rpcOverhead)
	}
	return max(1, maxBytes/elementSize), nil
}

// elementBound is the worst-case encoded size of an element.
type elementBound struct {
	bytes int
	holds bool // no value exceeds it: every value of the type takes the same number of bytes
}

// boundOf returns the bound of elements with codec c: given, or, when that is 0, what their type says.
func boundOf(c *codec.Codec, given int) (elementBound, error) {
	size := c.Size()
	switch {
	case given == 0:
		return elementBound{bytes: size.Most, holds: size.Fixed}, size.Unbounded
	case given < size.Least:
		return elementBound{}, fmt.Errorf("MaxElementBytes is %d, but every element takes at least %d bytes", given, size.Least)
	}
	return elementBound{bytes: given}, nil
}
