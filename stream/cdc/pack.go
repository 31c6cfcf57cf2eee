package cdc

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// MaxPacked is how many bytes a packed chunk has at most: what pieces.Talk.MaxPiece says of them.
const MaxPacked = 1 + MaxChunk

// The first byte of a packed chunk says what the others are.
const (
	packedPlain = 0
	packedZstd  = 1
)

// Compressing must save this part of a chunk or the chunk goes as it is: less is not worth the unpacking.
const leastSaving = 16 // a sixteenth

// What is tried first of a chunk that is much larger: what looks like noise in four places is not compressed, which costs a
// twentieth of trying it all.
const (
	triedPlaces = 4
	triedBytes  = 2 << 10 // of each place
)

// ErrChunk means that bytes are not those of the chunk: its size or its digest is another one, or they cannot be unpacked.
var ErrChunk = errors.New("damaged chunk")

// encoder and decoder serve any number of goroutines, of which as many at once as there are cores. Their options are right: there is no error.
var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(MaxChunk),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(MaxChunk),
		zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(0))
)

// Pack appends the packed form of a chunk's bytes, of which there are at most [MaxChunk], to b, compressed where that pays. Bytes that stand in
// b's memory already, one behind its end, are not copied where it does not. It is safe for concurrent use.
func Pack(b, chunk []byte) []byte {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	if mayPay(buffer, chunk) {
		*buffer = encoder.EncodeAll(chunk, (*buffer)[:0])
		if pays(len(*buffer), len(chunk)) {
			return append(append(b, packedZstd), *buffer...)
		}
	}
	if at := len(b) + 1; at+len(chunk) <= cap(b) && len(chunk) > 0 && &chunk[0] == &b[:at+1][at] {
		return append(b, packedPlain)[:at+len(chunk)]
	}
	return append(append(b, packedPlain), chunk...)
}

func pays(compressed, size int) bool { return compressed <= size-size/leastSaving }

// mayPay reports whether compressing a chunk is worth a try, for which it uses a buffer.
func mayPay(buffer *[]byte, chunk []byte) bool {
	if len(chunk) < 2*triedPlaces*triedBytes {
		return true
	}
	some := (*buffer)[:0]
	for i := range triedPlaces {
		some = append(some, chunk[i*(len(chunk)-triedBytes)/(triedPlaces-1):][:triedBytes]...)
	}
	*buffer = encoder.EncodeAll(some, some)
	return pays(len(*buffer)-len(some), len(some))
}

// Unpack returns the bytes of chunk c, which packed holds in packed form. It returns a part of packed where that is not compressed, and uses the
// memory of buffer otherwise, or new memory if c does not fit or buffer is nil; so the caller keeps packed and buffer as they are for as long as it
// uses the bytes. It fails with [ErrChunk] when they do not have c's size and digest, and never unpacks more than c's size. It is safe for
// concurrent use, of different buffers.
func Unpack(buffer, packed []byte, c Chunk) ([]byte, error) {
	if c.Size > MaxChunk || len(packed) == 0 || len(packed) > MaxPacked {
		return nil, fmt.Errorf("%w %v: %d bytes packed, for %d", ErrChunk, c.Digest, len(packed), c.Size)
	}
	size := int(c.Size)
	data, err := unpack(buffer, packed, size)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w %v: %w", ErrChunk, c.Digest, err)
	case len(data) != size || Sum(data) != c.Digest:
		return nil, fmt.Errorf("%w %v: it has other bytes", ErrChunk, c.Digest)
	}
	return data, nil
}

// buffers are for the bytes of chunks.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Verify reports why [Unpack] would fail, as a store does that keeps chunks packed.
func Verify(packed []byte, c Chunk) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	data, err := Unpack(*buffer, packed, c)
	if err == nil && packed[0] == packedZstd { // else it is a part of packed
		*buffer = data
	}
	return err
}

// unpack returns no more bytes than size.
func unpack(buffer, packed []byte, size int) ([]byte, error) {
	switch body := packed[1:]; packed[0] {
	case packedPlain:
		if len(body) > size {
			return nil, fmt.Errorf("%d bytes too many", len(body)-size)
		}
		return body, nil
	case packedZstd:
		return decoder.DecodeAll(body, slices.Grow(buffer[:0], size)[:0:size])
	}
	return nil, fmt.Errorf("packed in way %d, which this program does not know", packed[0])
}
