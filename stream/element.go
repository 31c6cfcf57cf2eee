package stream

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/quivernet/quiver/internal/codec"
)

// Sizes of RPCs and of their content, in bytes.
const (
	// maxRPCBytes is the size of the largest bunch, as in Unreal Engine
	// (net.MaxConstructedPartialBunchSizeBytes).
	maxRPCBytes = 65536
	// defaultRPCBytes is half of maxRPCBytes, as in the article on streaming large data over
	// Unreal's reliable RPCs (see the package comment).
	defaultRPCBytes = 32 << 10
	// minMaxBunch is the minimum of MaxBunch. The largest header and reject fit into it.
	minMaxBunch = 1024
	// rpcOverhead is the space that is reserved in every RPC for the method's id, a part's header,
	// and the headers of msgpack arrays.
	rpcOverhead = 64
	// maxElementBytes is the size of the largest permitted element. Such an element fills an RPC of
	// maxRPCBytes alone.
	maxElementBytes = maxRPCBytes - rpcOverhead
)

// elementBound is the maximum size of an encoded element.
type elementBound struct {
	bytes      int
	guaranteed bool // the type guarantees the bound, so values needn't be checked
}

// boundOf returns the bound of elements that are encoded with c. maxBytes is MaxElementBytes, which
// replaces the bound that follows from the type unless it's 0.
func boundOf(c *codec.Codec, maxBytes int) (elementBound, error) {
	size := c.Size()
	switch {
	case maxBytes == 0 && size.Unbounded != nil:
		return elementBound{}, size.Unbounded
	case maxBytes == 0:
		return elementBound{bytes: size.Most, guaranteed: size.Fixed}, nil
	case maxBytes < size.Least:
		return elementBound{}, fmt.Errorf("MaxElementBytes is %d, but every element has at least %d bytes",
			maxBytes, size.Least)
	}
	return elementBound{bytes: maxBytes}, nil
}

// elementsPerRPC returns how many elements of up to elementSize bytes fit into an RPC of
// maxBytes, or of defaultRPCBytes if maxBytes is 0. An element that is larger than that has an RPC
// to itself.
func elementsPerRPC(maxBytes, elementSize int) (int, error) {
	if maxBytes == 0 {
		maxBytes = defaultRPCBytes
	}
	switch {
	case maxBytes < 0 || maxBytes > maxElementBytes:
		return 0, fmt.Errorf("MaxBytesPerRPC is %d; it must be 1 to %d, the largest bunch minus headers, or 0 for the default",
			maxBytes, maxElementBytes)
	case elementSize < 1:
		return 0, fmt.Errorf("element size %d is not positive", elementSize)
	case elementSize > maxElementBytes:
		return 0, fmt.Errorf("element may take up to %d bytes; the limit is %d, the largest bunch minus headers: "+
			"reduce the bounds of its fields or split it", elementSize, maxElementBytes)
	}
	return max(1, maxBytes/elementSize), nil
}

// checkElements returns an error if an element of part encodes to more bytes than its bound.
// first is the index of part[0] among all elements.
func checkElements[T any](c *codec.Codec, part []T, first int, bound elementBound) error {
	if bound.guaranteed {
		return nil
	}
	var scratch []byte
	for i := range part {
		b, err := c.Append(scratch[:0], &part[i])
		if err != nil {
			return fmt.Errorf("stream: element %d: %w", first+i, tooLong(err))
		}
		if len(b) > bound.bytes {
			return fmt.Errorf("%w: element %d has %d bytes; the limit is %d (MaxElementBytes)",
				ErrTooLarge, first+i, len(b), bound.bytes)
		}
		scratch = b
	}
	return nil
}

// tooLong wraps the codec's ErrTooLong, which means that a field exceeds its bound, in
// ErrTooLarge.
func tooLong(err error) error {
	if errors.Is(err, codec.ErrTooLong) {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return err
}

// elementCodec returns the codec for an element of an argument's slice.
func elementCodec(t reflect.Type) (*codec.Codec, error) {
	c, err := codec.Inside(t)
	if err == nil {
		return c, nil
	}
	// Some types can only be encoded separately, not as part of something larger. Allow those too,
	// because a [Wrap] may write the elements into an rpc.Raw.
	if separate, ofErr := codec.Of(t); ofErr == nil {
		return separate, nil
	}
	return nil, err
}

// rpcBytes returns the most bytes that an RPC to call takes if its elements take up to
// elementBytes. call is a Caller of any type.
func rpcBytes(call any, elementBytes int) (int, error) {
	bytes := elementBytes + rpcOverhead
	if w, ok := call.(wrapper); ok {
		added, err := w.overhead()
		if err != nil {
			return 0, err
		}
		bytes += added
	}
	if bytes > maxRPCBytes {
		return 0, fmt.Errorf("%w: RPC may take up to %d bytes; the limit is %d: reduce MaxBytesPerRPC",
			ErrTooLarge, bytes, maxRPCBytes)
	}
	return bytes, nil
}
