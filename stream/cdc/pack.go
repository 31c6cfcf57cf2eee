package cdc

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// MaxPacked is the maximum size of a packed chunk in bytes. Use it for pieces.Talk.MaxPiece.
const MaxPacked = 1 + MaxChunk

// The first byte of a packed chunk says how the other bytes are encoded.
const (
	packedPlain = 0
	packedZstd  = 1
)

// Compressing a chunk must save at least 1/minSaving of its size. A smaller saving isn't worth the
// time for unpacking.
const minSaving = 16

// For a large chunk, Pack first compresses a sample, taken from several places. It compresses the
// chunk only if the sample shrinks. The sample costs a twentieth of the time for the whole chunk.
const (
	samplePlaces = 4
	sampleBytes  = 2 << 10 // bytes at each place
)

// ErrChunk means that the bytes don't belong to the chunk: their size or digest differs, or they
// cannot be unpacked.
var ErrChunk = errors.New("damaged chunk")

// encoder and decoder are safe for concurrent use. As many goroutines can use them at once as there
// are cores. Since their options are valid, creating them can't fail.
var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(MaxChunk),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(MaxChunk),
		zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(0))
)

// Pack appends the packed form of chunk to b. chunk has at most [MaxChunk] bytes, and is compressed
// if that saves enough. Pack is safe for concurrent use.
//
// If chunk is not compressed and lies in b's own memory, one byte after b's end,
// Pack copies nothing.
func Pack(b, chunk []byte) []byte {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	if worthTrying(buffer, chunk) {
		*buffer = encoder.EncodeAll(chunk, (*buffer)[:0])
		if savesEnough(len(*buffer), len(chunk)) {
			return append(append(b, packedZstd), *buffer...)
		}
	}
	// Check whether the caller has already put chunk in the right place.
	if at := len(b) + 1; at+len(chunk) <= cap(b) && len(chunk) > 0 && &chunk[0] == &b[:at+1][at] {
		return append(b, packedPlain)[:at+len(chunk)]
	}
	return append(append(b, packedPlain), chunk...)
}

// savesEnough reports whether it was worthwhile to compress size bytes to compressed bytes.
func savesEnough(compressed, size int) bool { return compressed <= size-size/minSaving }

// worthTrying reports whether the chunk is likely to shrink. It uses buffer as scratch space.
func worthTrying(buffer *[]byte, chunk []byte) bool {
	if len(chunk) < 2*samplePlaces*sampleBytes {
		return true // the sample would be more than half of the chunk
	}
	sample := (*buffer)[:0]
	for i := range samplePlaces {
		sample = append(sample, chunk[i*(len(chunk)-sampleBytes)/(samplePlaces-1):][:sampleBytes]...)
	}
	*buffer = encoder.EncodeAll(sample, sample)
	return savesEnough(len(*buffer)-len(sample), len(sample))
}

// Unpack returns the bytes of chunk c from their packed form. It returns an error that wraps
// [ErrChunk] if the bytes do not have c's size and digest. It never unpacks more than c's size.
//
// If the packed form is not compressed, the result is a part of packed. Otherwise, the result is in
// the memory of buffer, or in new memory if buffer is too small. The caller must not change packed
// or buffer while it uses the result. Unpack is safe for concurrent use with different buffers.
func Unpack(buffer, packed []byte, c Chunk) ([]byte, error) {
	if c.Size > MaxChunk || len(packed) == 0 || len(packed) > MaxPacked {
		return nil, fmt.Errorf("%w %v: %d packed bytes for %d bytes; the limits are %d and %d", ErrChunk, c.Digest, len(packed), c.Size, MaxPacked, MaxChunk)
	}
	size := int(c.Size)
	data, err := unpack(buffer, packed, size)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w %v: %w", ErrChunk, c.Digest, err)
	case len(data) != size || Sum(data) != c.Digest:
		return nil, fmt.Errorf("%w %v: content does not match", ErrChunk, c.Digest)
	}
	return data, nil
}

// buffers holds buffers for the bytes of chunks, so that they can be reused.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Verify returns the error that [Unpack] would return. It's for stores that keep chunks packed.
func Verify(packed []byte, c Chunk) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	data, err := Unpack(*buffer, packed, c)
	if err == nil && packed[0] == packedZstd {
		*buffer = data // it may have grown; if the chunk isn't compressed, data is part of packed
	}
	return err
}

// unpack does what Unpack does, but doesn't check the result, except that more than size bytes are
// an error.
func unpack(buffer, packed []byte, size int) ([]byte, error) {
	body := packed[1:]
	switch packed[0] {
	case packedPlain:
		if len(body) > size {
			return nil, fmt.Errorf("%d bytes too many", len(body)-size)
		}
		return body, nil
	case packedZstd:
		return decoder.DecodeAll(body, slices.Grow(buffer[:0], size)[:0:size])
	}
	return nil, fmt.Errorf("unknown packing %d", packed[0])
}
