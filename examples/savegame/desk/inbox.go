package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/stream"
)

const (
	// maxRecords bounds a list of versions in bytes: a quarter of a million.
	maxRecords = 64 << 20
	// maxLetters bounds what waits in an inbox: a job waits for one or two at a time.
	maxLetters = 4 * maxJobs
)

// inbox is where blobs wait for those who take them, and those for their blobs. It is safe for concurrent use.
type inbox struct {
	mu    sync.Mutex
	boxes map[letter]chan *stream.IncomingBlob // of one
}

// letter is what a blob is about.
type letter struct {
	topic  *stream.Blob
	number number
}

// box returns where a blob and who takes it meet, nil where there are too many such places.
func (b *inbox) box(l letter) chan *stream.IncomingBlob {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.boxes == nil {
		b.boxes = make(map[letter]chan *stream.IncomingBlob)
	}
	if b.boxes[l] == nil && len(b.boxes) < maxLetters {
		b.boxes[l] = make(chan *stream.IncomingBlob, 1)
	}
	return b.boxes[l]
}

func (b *inbox) remove(l letter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.boxes, l)
}

// deliver hands a blob over, in its topic's handler. One that nobody takes costs no more than the window that the stream has
// until it fails. One that is empty ends at once, and is still waited for.
func (b *inbox) deliver(topic *stream.Blob, in *stream.IncomingBlob) {
	l := letter{topic, numberOf(in.Name())}
	select {
	case b.box(l) <- in:
		in.OnEnd(func(err error) {
			if err != nil {
				b.remove(l)
			}
		})
	default:
		in.Reject(errors.New("there is one already, or too many wait"))
	}
}

// take waits for a blob. What ctx ends then ends the blob as well.
func (b *inbox) take(ctx context.Context, topic *stream.Blob, n number) (*stream.IncomingBlob, error) {
	l := letter{topic, n}
	box := b.box(l)
	if box == nil {
		return nil, fmt.Errorf("%w: %d blobs wait already", ErrBusy, maxLetters)
	}
	defer b.remove(l)
	select {
	case in := <-box:
		context.AfterFunc(ctx, func() { in.Reject(context.Cause(ctx)) })
		return in, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// takeAll waits for a blob and reads it.
func (b *inbox) takeAll(ctx context.Context, topic *stream.Blob, n number, most int64) ([]byte, error) {
	in, err := b.take(ctx, topic, n)
	if err != nil {
		return nil, err
	}
	if err := checkSize(in, most); err != nil {
		return nil, err
	}
	return io.ReadAll(in)
}

// checkSize refuses a blob that does not say its size, or has more bytes than most.
func checkSize(in *stream.IncomingBlob, most int64) error {
	if in.Size() >= 0 && in.Size() <= most {
		return nil
	}
	err := fmt.Errorf("%w: %d bytes, the limit is %d", manifest.ErrManifest, in.Size(), most)
	in.Reject(err)
	return err
}

// takeRecords waits for versions.
func (b *inbox) takeRecords(ctx context.Context, n number) (list []versions.Version, err error) {
	text, err := b.takeAll(ctx, records, n, maxRecords)
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	return list, err
}

// takeChunks waits for a stream of chunks and gives them to each, one after the other, as receiveChunks does.
func (b *inbox) takeChunks(ctx context.Context, n number, indices []int, each func(index int, packed *[]byte) error) error {
	in, err := b.take(ctx, chunks, n)
	if err != nil {
		return err
	}
	if err = receiveChunks(in, indices, each); err != nil {
		in.Reject(err)
	}
	return err
}
