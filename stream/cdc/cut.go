package cdc

import (
	"context"
	"io"
	"slices"
	"sync"

	"github.com/PlakarKorp/go-cdc-chunkers/chunkers/jc"
)

// Sizes of chunks. A change costs the chunks that it touches, so smaller ones make a better delta; each costs 35 bytes of
// manifest, so larger ones make a shorter one: 1 GiB has about 6,700, a quarter of a megabyte of manifest.
const (
	MinChunk     = 32 << 10 // but for the last of a file
	AverageChunk = 128 << 10
	MaxChunk     = 512 << 10
)

// The cuts are those of JC, which that package calls jc-v1.0.0: a FastCDC that skips half of an average chunk wherever a weaker mask matches. It
// meets the old cuts again 0.2 MiB behind an insertion, 1.1 MiB at worst of 1,200, where fastcdc-v1.0.0 took 1.4, and looks at two fifths of the
// bytes. jc-v1.1.0 is no later version of it: it has the masks of 8 KiB chunks for every size, skips nearly all of larger ones and hardly ever
// meets its old cuts. Other cuts would be no error: they would only cost a full put of everything once.
const (
	strongMask = 0x8888888888888888 // a chunk ends where the sum of the bytes before has none of these bits
	weakMask   = strongMask - 8     // where it has none of these, jump bytes are skipped
	jump       = AverageChunk / 2
)

// readStep is how much is read at once behind an average chunk: what is behind a chunk's end is copied into the next one's buffer.
const readStep = 64 << 10

// cutAhead is how many chunks wait at most to be hashed: cutting and hashing take about the same time.
const cutAhead = 4

// Cut cuts what r holds to its end into chunks. It calls each with every chunk in order, on the goroutine that called Cut, and with the bytes of
// it, which are valid during that call only; an empty r has no chunk. It reads r on another goroutine meanwhile, which has ended when Cut returns:
// with the first error of each, which ends the cutting, or of r. It is safe for concurrent use.
func Cut(r io.Reader, each func(chunk Chunk, data []byte) error) error {
	cut, read := make(chan *[]byte, cutAhead), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop() // also when each panics
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

// send cuts r and sends each chunk's bytes, in a buffer that goes back to buffers.
func send(ctx context.Context, r io.Reader, cut chan<- *[]byte) error {
	data := chunkBuffer(nil)
	defer func() { buffers.Put(data) }() // the one behind the last chunk
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

// chunkBuffer returns a buffer of buffers, with room for the largest chunk, that begins with some bytes.
func chunkBuffer(begin []byte) *[]byte {
	b := buffers.Get().(*[]byte)
	*b = append(slices.Grow((*b)[:0], MaxChunk), begin...)
	return b
}

// fill appends what it reads to data until it knows where the first chunk of that ends; 0: nothing is left.
func fill(r io.Reader, data *[]byte) (end int, err error) {
	s := seeker{at: MinChunk}
	for {
		b := *data
		if len(b) > AverageChunk && s.seek(b) { // what is left at the end is one chunk, if it is no more than an average one
			return s.at, nil
		}
		if len(b) == MaxChunk {
			return MaxChunk, nil
		}
		n, err := io.ReadAtLeast(r, b[len(b):min(max(len(b)+readStep, AverageChunk+1), MaxChunk)], 1)
		*data = b[:len(b)+n]
		if err == io.EOF {
			return len(b), nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// seeker looks for the end of a chunk.
type seeker struct {
	at  int    // the byte that it looks at next
	sum uint64 // of the bytes before, since it began or jumped; the last 64 count
}

// seek looks at the bytes of a chunk that it has not seen yet, and reports whether the chunk ends before the one at.
func (s *seeker) seek(chunk []byte) (ends bool) {
	for s.at < len(chunk) {
		sum, n := roll(s.sum, chunk[s.at:])
		s.sum, s.at = sum, s.at+n
		switch {
		case s.at == len(chunk):
		case sum&strongMask == 0:
			return true
		default:
			s.sum, s.at = 0, s.at+jump
		}
	}
	return false
}

// roll adds bytes to a sum until that matches weakMask, and returns it, and how many stand before the one that made it match: all where none did.
func roll(sum uint64, data []byte) (uint64, int) {
	gear, n := &jc.G, 0
	for ; len(data) >= n+4; n += 4 {
		d := data[n : n+4 : n+4]
		a := gear[d[0]] // what each byte adds with those before it: so that the sum of four waits for that of four, not each for the one before
		b := a<<1 + gear[d[1]]
		c := b<<1 + gear[d[2]]
		e := sum<<4 + c<<1 + gear[d[3]]
		if (sum<<1+a)&weakMask == 0 || (sum<<2+b)&weakMask == 0 || (sum<<3+c)&weakMask == 0 || e&weakMask == 0 {
			break
		}
		sum = e
	}
	for ; n < len(data); n++ {
		if sum = sum<<1 + gear[data[n]]; sum&weakMask == 0 {
			break
		}
	}
	return sum, n
}
