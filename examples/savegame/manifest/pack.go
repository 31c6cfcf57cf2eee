package manifest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// MaxPacked is how many bytes a packed chunk has at most.
const MaxPacked = 1 + MaxChunk

// The first byte of a packed chunk says what the others are.
const (
	packedPlain = 0
	packedZstd  = 1
)

// Compressing must save this part of a chunk or the chunk goes as it is: less is not worth the unpacking.
const leastSaving = 16 // a sixteenth

// ErrChunk means that bytes are not the chunk that they should be.
var ErrChunk = errors.New("damaged chunk")

// encoder and decoder serve any number of goroutines, of which as many at once as there are cores.
var (
	encoder = made(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(MaxChunk),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true)))
	decoder = made(zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(MaxChunk),
		zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(0)))
)

func made[T any](coder T, err error) T {
	if err != nil {
		panic(err) // the options above are wrong
	}
	return coder
}

// Pack appends the packed form of a chunk's bytes to b, compressed where that pays. Any number may run at once.
func Pack(b, chunk []byte) []byte {
	at := len(b)
	b = append(b, packedZstd)
	b = encoder.EncodeAll(chunk, b)
	if len(b)-at-1 <= len(chunk)-len(chunk)/leastSaving {
		return b
	}
	b = append(b[:at], packedPlain)
	return append(b, chunk...)
}

// Unpack returns the bytes of chunk c, which packed holds in packed form, in buffer if they fit. It fails with [ErrChunk]
// when they have not its size and digest, and never unpacks more than its size. Any number may run at once.
func Unpack(buffer, packed []byte, c Chunk) ([]byte, error) {
	if c.Size > MaxChunk || len(packed) == 0 || len(packed) > MaxPacked {
		return nil, fmt.Errorf("%w %v: %d bytes packed, for %d", ErrChunk, c.Digest, len(packed), c.Size)
	}
	size := int(c.Size)
	data, err := unpack(slices.Grow(buffer[:0], size)[:0:size], packed)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w %v: %w", ErrChunk, c.Digest, err)
	case len(data) != size || Sum(data) != c.Digest:
		return nil, fmt.Errorf("%w %v: it has other bytes", ErrChunk, c.Digest)
	}
	return data, nil
}

// unpack appends to b, within its capacity.
func unpack(b, packed []byte) ([]byte, error) {
	switch body := packed[1:]; packed[0] {
	case packedPlain:
		if len(body) > cap(b) {
			return nil, fmt.Errorf("%d bytes too many", len(body)-cap(b))
		}
		return append(b, body...), nil
	case packedZstd:
		return decoder.DecodeAll(body, b)
	}
	return nil, fmt.Errorf("packed in way %d, which this program does not know", packed[0])
}
