package cdc

import (
	"context"
	"io"
	"slices"
	"sync"

	"github.com/PlakarKorp/go-cdc-chunkers/chunkers/jc"
)

// Chunk sizes, in bytes.
//
// A change costs all chunks that it touches, so smaller chunks make a better delta. Each
// chunk takes 35 bytes of manifest, so larger chunks make a shorter manifest. 1 GiB has
// about 6,700 chunks, and a manifest of a quarter of a megabyte.
const (
	MinChunk     = 32 << 10 // except for the last chunk of a file
	AverageChunk = 128 << 10
	MaxChunk     = 512 << 10
)

// The cuts are those of JC, which package jc calls jc-v1.0.0. It is a FastCDC that skips
// half of an average chunk when a weaker mask matches.
//
// After an insertion, JC finds its old cuts again within 0.2 MiB, or 1.1 MiB at worst among
// 1,200 insertions; fastcdc-v1.0.0 needs 1.4 MiB. JC examines two fifths of the bytes.
//
// jc-v1.1.0 is not a later version of it. It uses the masks of 8 KiB chunks for every size,
// skips nearly all of larger chunks and hardly ever finds its old cuts.
//
// Different cuts would not be an error. They would only cost one full transfer of everything.
const (
	strongMask = 0x8888888888888888 // a chunk ends where the sum of the preceding bytes has none of these bits
	weakMask   = strongMask - 8     // jump bytes are skipped where the sum has none of these bits
	jump       = AverageChunk / 2
)

// readStep is the number of bytes read at once beyond an average chunk. Bytes after the end
// of a chunk are copied into the buffer of the next one.
const readStep = 64 << 10

// cutAhead is the maximum number of chunks waiting to be hashed. It is small because
// cutting and hashing take about the same time.
const cutAhead = 4

// Cut cuts the content of r, up to io.EOF, into chunks. It calls each for every chunk, in
// order and on the caller's goroutine. The chunk's bytes are valid only during that call.
// If r is empty, there are no chunks.
//
// Cut stops at the first error of each or of r, and returns it. Another goroutine reads r
// meanwhile; it has ended when Cut returns. Cut is safe for concurrent use.
func Cut(r io.Reader, each func(chunk Chunk, data []byte) error) error {
	cut := make(chan *[]byte, cutAhead)
	read := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop() // also ends the goroutine if each fails or panics
	reading.Go(func() {
		defer close(cut)
		read <- send(ctx, r, cut)
	})
	for data := range cut {
		if err := each(Chunk{Sum(*data), uint32(len(*data))}, *data); err != nil {
			return err
		}
		buffers.Put(data)
	}
	return <-read
}

// send cuts r and sends the bytes of each chunk, in a buffer that the receiver
// returns to buffers.
func send(ctx context.Context, r io.Reader, cut chan<- *[]byte) error {
	data := chunkBuffer(nil)
	defer func() { buffers.Put(data) }() // the buffer after the last chunk
	for {
		end, err := fill(r, data)
		if err != nil || end == 0 {
			return err
		}
		rest := chunkBuffer((*data)[end:])
		*data = (*data)[:end]
		select {
		case cut <- data:
			data = rest
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// chunkBuffer returns a buffer that contains begin and has room for the largest chunk.
func chunkBuffer(begin []byte) *[]byte {
	b := buffers.Get().(*[]byte)
	*b = append(slices.Grow((*b)[:0], MaxChunk), begin...)
	return b
}

// fill reads from r into data until it knows where the first chunk in data ends. end is 0
// if nothing is left.
func fill(r io.Reader, data *[]byte) (end int, err error) {
	s := seeker{at: MinChunk}
	for {
		b := *data
		// At most an average chunk at the end of r is one chunk, so look for a cut
		// only if there is more.
		if len(b) > AverageChunk && s.seek(b) {
			return s.at, nil
		}
		if len(b) == MaxChunk {
			return MaxChunk, nil
		}
		limit := min(max(len(b)+readStep, AverageChunk+1), MaxChunk)
		n, err := io.ReadAtLeast(r, b[len(b):limit], 1)
		*data = b[:len(b)+n]
		if err == io.EOF {
			return len(b), nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// A seeker looks for the end of a chunk.
type seeker struct {
	at  int    // index of the next byte to examine
	sum uint64 // sum of the bytes before at, since the beginning or the last jump; only the last 64 matter
}

// seek examines the bytes of chunk that were not examined yet. It reports whether the chunk
// ends before index at.
func (s *seeker) seek(chunk []byte) (ends bool) {
	for s.at < len(chunk) {
		sum, n := roll(s.sum, chunk[s.at:])
		s.sum = sum
		s.at += n
		switch {
		case s.at == len(chunk):
		case sum&strongMask == 0:
			return true
		default:
			s.sum = 0
			s.at += jump
		}
	}
	return false
}

// roll adds bytes of data to sum until the sum matches weakMask. It returns the sum and the
// number of bytes before the one that made it match, or len(data) if none did.
func roll(sum uint64, data []byte) (uint64, int) {
	gear, n := &jc.G, 0
	for ; len(data) >= n+4; n += 4 {
		// a, b and c are sums of up to three bytes without sum. With them, the four sums of
		// an iteration depend only on the sum before it, and not on each other.
		d := data[n : n+4 : n+4]
		a := gear[d[0]]
		b := a<<1 + gear[d[1]]
		c := b<<1 + gear[d[2]]
		e := sum<<4 + c<<1 + gear[d[3]]
		if (sum<<1+a)&weakMask == 0 || (sum<<2+b)&weakMask == 0 || (sum<<3+c)&weakMask == 0 || e&weakMask == 0 {
			break
		}
		sum = e
	}
	for ; n < len(data); n++ {
		sum = sum<<1 + gear[data[n]]
		if sum&weakMask == 0 {
			break
		}
	}
	return sum, n
}
