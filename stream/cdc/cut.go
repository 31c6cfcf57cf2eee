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
// After a change, all chunks that it touches must be sent, which is an argument for small chunks.
// But each chunk takes 35 bytes in the manifest, which is an argument for large ones. With these
// sizes, 1 GiB has about 6,700 chunks and a manifest of a quarter of a megabyte.
const (
	MinChunk     = 32 << 10 // the last chunk of a file may be smaller
	AverageChunk = 128 << 10
	MaxChunk     = 512 << 10
)

// Chunks are cut by JC, a variant of FastCDC that skips half of an average chunk whenever a weaker
// mask matches. Package jc calls this version jc-v1.0.0.
//
// JC looks at only two fifths of the bytes. After an insertion, it finds its old cuts again within
// 0.2 MiB, or within 1.1 MiB in the worst of 1,200 insertions. The fastcdc-v1.0.0 of the same
// library needs 1.4 MiB. Don't take jc-v1.1.0 for a newer version: it uses the masks for 8 KiB
// chunks with every chunk size. In larger chunks, it therefore skips nearly all bytes, and it
// hardly ever finds its old cuts.
//
// Changing the algorithm would still be correct. Everything would then have to be transferred in
// full once.
const (
	strongMask = 0x8888888888888888 // a chunk ends where the hash has none of these bits
	weakMask   = strongMask - 8     // we skip skipBytes where the hash has none of these bits
	skipBytes  = AverageChunk / 2
)

// readStep is the number of bytes that we read at once, beyond an average chunk. It should be
// small, since bytes after the end of a chunk have to be copied into the buffer of the next chunk.
const readStep = 64 << 10

// cutAhead is the maximum number of chunks that wait to be hashed. A few are enough, because
// cutting and hashing take about the same time.
const cutAhead = 4

// Cut cuts the content of r, up to io.EOF, into chunks. It calls the function each for every chunk,
// in order and on the caller's goroutine. The chunk's bytes are valid only during that call. If r
// is empty, there are no chunks.
//
// Cut stops at the first error of each or of r, and returns it. Another goroutine reads r, but has
// ended by the time Cut returns. Cut is safe for concurrent use.
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

// send cuts r and sends the bytes of each chunk to cut, in a buffer that the receiver must give
// back to buffers.
func send(ctx context.Context, r io.Reader, cut chan<- *[]byte) error {
	data := chunkBuffer(nil)
	defer func() { buffers.Put(data) }() // the buffer that is left over in the end
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

// chunkBuffer returns a buffer that begins with begin and has room for the largest chunk.
func chunkBuffer(begin []byte) *[]byte {
	b := buffers.Get().(*[]byte)
	*b = append(slices.Grow((*b)[:0], MaxChunk), begin...)
	return b
}

// fill reads from r into data until it knows where the first chunk in data ends. It returns 0
// if there is nothing left.
func fill(r io.Reader, data *[]byte) (end int, err error) {
	finder := cutFinder{at: MinChunk}
	for {
		b := *data
		// If at most an average chunk is left at the end of r, it becomes one chunk, whatever its
		// bytes are. So don't look for a cut until there is more.
		if len(b) > AverageChunk && finder.find(b) {
			return finder.at, nil
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

// A cutFinder looks for the end of a chunk while the chunk is still being read.
type cutFinder struct {
	at   int    // index of the next byte to look at
	hash uint64 // hash of the bytes before at, since the beginning or the last skip
}

// find looks at the bytes of chunk that it hasn't looked at yet. It reports whether it has found
// the end of the chunk, which is then before index at.
func (f *cutFinder) find(chunk []byte) (ends bool) {
	for f.at < len(chunk) {
		hash, n := rollHash(f.hash, chunk[f.at:])
		f.hash = hash
		f.at += n
		switch {
		case f.at == len(chunk):
			// Neither mask has matched so far. Go on when more has been read.
		case hash&strongMask == 0:
			return true
		default:
			// Only the weak mask has matched.
			f.hash = 0
			f.at += skipBytes
		}
	}
	return false
}

// rollHash adds bytes of data to a gear hash until it matches weakMask. It returns the hash, and
// the index of the byte that made it match, or len(data) if no byte did.
//
// For each byte, the hash is shifted by one bit, so it depends only on the last 64 bytes.
func rollHash(hash uint64, data []byte) (uint64, int) {
	gear, n := &jc.G, 0
	for ; len(data) >= n+4; n += 4 {
		// Take four bytes at a time. a, b and c are the hashes of the first one, two and three of
		// these bytes, starting from 0. With their help, each of the four new hashes depends only
		// on the hash before this iteration, not on another new one, so the processor can compute
		// them at the same time.
		d := data[n : n+4 : n+4]
		a := gear[d[0]]
		b := a<<1 + gear[d[1]]
		c := b<<1 + gear[d[2]]
		e := hash<<4 + c<<1 + gear[d[3]]
		if (hash<<1+a)&weakMask == 0 || (hash<<2+b)&weakMask == 0 || (hash<<3+c)&weakMask == 0 || e&weakMask == 0 {
			break // the loop below finds out which
		}
		hash = e
	}
	for ; n < len(data); n++ {
		hash = hash<<1 + gear[data[n]]
		if hash&weakMask == 0 {
			break
		}
	}
	return hash, n
}
