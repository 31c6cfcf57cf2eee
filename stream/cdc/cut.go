package cdc

import (
	"context"
	"io"

	"golang.org/x/sync/errgroup"

	chunkers "github.com/PlakarKorp/go-cdc-chunkers"
	_ "github.com/PlakarKorp/go-cdc-chunkers/chunkers/jc" // registers what cutAlgorithm names
)

// Sizes of chunks. A change costs the chunks that it touches, so smaller ones make a better delta; each costs 35 bytes of
// manifest, so larger ones make a shorter one: 1 GiB has about 6,700, a quarter of a megabyte of manifest.
const (
	MinChunk     = 32 << 10 // but for the last of a file
	AverageChunk = 128 << 10
	MaxChunk     = 512 << 10
)

// cutAlgorithm is JC, a FastCDC that skips half of an average chunk wherever a weaker mask matches: it cuts 1.4 GB/s where
// fastcdc-v1.0.0 cuts 0.45, and meets the old cuts again 0.2 MiB behind an insertion, 1.1 MiB at worst of 1,200, where
// that took 1.4. jc-v1.1.0 is no later version of it: it has the masks of 8 KiB chunks for every size, skips nearly all of
// larger ones and hardly ever meets its old cuts. The name is the library's promise that the cuts stay where they are.
// Other cuts would be no error: they would only cost a full put of everything once.
const cutAlgorithm = "jc-v1.0.0"

// Cutter cuts content into chunks. It holds some MiB, so keep one for many files. One goroutine at a time may use it.
type Cutter struct{ chunker *chunkers.Chunker }

// NewCutter returns a cutter.
func NewCutter() *Cutter {
	options := &chunkers.ChunkerOpts{MinSize: MinChunk, NormalSize: AverageChunk, MaxSize: MaxChunk}
	chunker, err := chunkers.NewChunker(cutAlgorithm, nil, options)
	if err != nil {
		panic(err) // the constants above are wrong
	}
	return &Cutter{chunker}
}

// cutAhead is how many chunks wait at most to be hashed: cutting and hashing take about the same time.
const cutAhead = 4

// Cut reads r to its end, and calls each with every chunk in order, and with the bytes of it, which are valid during that call only. An empty r has
// no chunk. It calls each on another goroutine, one call at a time, and returns when the last has returned: with the first error of each, which
// ends the cutting, or of r.
func (c *Cutter) Cut(r io.Reader, each func(chunk Chunk, data []byte) error) error {
	c.chunker.Reset(r)
	cut := make(chan *[]byte, cutAhead)
	both, ctx := errgroup.WithContext(context.Background())
	both.Go(func() error {
		defer close(cut)
		return c.cut(ctx, cut)
	})
	both.Go(func() error {
		for data := range cut {
			if err := each(Chunk{Sum(*data), uint32(len(*data))}, *data); err != nil {
				return err
			}
			buffers.Put(data)
		}
		return nil
	})
	return both.Wait()
}

// cut sends each chunk's bytes, in a buffer that goes back to buffers.
func (c *Cutter) cut(ctx context.Context, cut chan<- *[]byte) error {
	for {
		data, err := c.chunker.Next()
		if len(data) > 0 {
			b := buffers.Get().(*[]byte)
			*b = append((*b)[:0], data...)
			select {
			case cut <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
