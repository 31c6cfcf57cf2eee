package desk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/stream"
)

// talks are what is said about requests beside their arguments and answers, each in a blob that has the request's number and one of the words
// below for a name. They have no digest, as manifests and chunks have theirs.
var talks = stream.NewBlob("talk")

const (
	versionBlob  = "version" // in JSON
	manifestBlob = "manifest"
	lacksBlob    = "lacks"  // a bitmap of the chunks that are wanted
	chunksBlob   = "chunks" // of each its size in 4 bytes, little end first, and its bytes, packed
)

const (
	// maxVersion bounds a version in bytes: two names of 79, all of them escaped perhaps, and 280 beside.
	maxVersion = 2 << 10
	// chunkHeader is how many bytes the size of a chunk has.
	chunkHeader = 4
)

// talk is one side of what is said about a request. One goroutine at a time may use it.
type talk struct {
	ctx    context.Context // ends all blobs
	peer   *stream.Peer
	inbox  *stream.Inbox
	number number
	rate   int                 // bytes a second of chunks that are said; 0: no limit
	share  *semaphore.Weighted // of buffers that it may hold; nil: any number
}

// options are those of a blob.
func (t *talk) options(blob string) []stream.Option {
	return []stream.Option{stream.Name(t.name(blob)), stream.Hash(stream.NoDigest)}
}

func (t *talk) name(blob string) string { return t.number.String() + " " + blob }

// say says something, and returns when the other side has heard it.
func (t *talk) say(blob string, b []byte) error {
	return talks.Send(t.ctx, t.peer, bytes.NewReader(b), int64(len(b)), t.options(blob)...)
}

// take waits for what the other side says. More than most bytes are no manifest, nor a bitmap of one.
func (t *talk) take(blob string, most int) (*stream.IncomingBlob, error) {
	in, err := t.inbox.Take(t.ctx, t.name(blob))
	if err != nil {
		return nil, err
	}
	if size := in.Size(); size < 0 || size > int64(most) {
		return nil, fmt.Errorf("%w: %s of %d bytes, the limit is %d", manifest.ErrManifest, blob, size, most)
	}
	return in, nil
}

// hear waits for what the other side says, and reads it.
func (t *talk) hear(blob string, most int) ([]byte, error) {
	in, err := t.take(blob, most)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(in) // which takes memory as it comes
}

// offer says a manifest of so many chunks, and hears which of them the other side lacks.
func (t *talk) offer(bytes []byte, count int) (lacks []int, err error) {
	if err := t.say(manifestBlob, bytes); err != nil {
		return nil, err
	}
	b, err := t.hear(lacksBlob, (count+7)/8)
	if err != nil {
		return nil, err
	}
	return fromBitmap(b, count)
}

// readWhole fills b. An end before that is an error.
func readWhole(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// sayChunks says a chunk for each of indices, which pack appends to a buffer, and returns when the other side has all.
func (t *talk) sayChunks(indices []int, pack func(buffer []byte, index int) ([]byte, error)) error {
	if len(indices) == 0 {
		return nil
	}
	out, err := talks.Create(t.peer, append(t.options(chunksBlob), stream.Rate(max(0, t.rate)))...)
	if err != nil {
		return err
	}
	context.AfterFunc(t.ctx, func() { out.Cancel(context.Cause(t.ctx)) }) // which does nothing to one that the other side has
	for _, index := range indices {
		if err := t.sayChunk(out, index, pack); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), out.Wait(t.ctx))
}

// sayChunk packs a chunk and sends it, in a buffer that it holds until the stream has taken the chunk.
func (t *talk) sayChunk(out io.Writer, index int, pack func(buffer []byte, index int) ([]byte, error)) error {
	b, err := t.takeBuffer(chunkHeader)
	if err != nil {
		return err
	}
	defer t.giveBuffer(b)
	if *b, err = pack(*b, index); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(*b, uint32(len(*b)-chunkHeader))
	_, err = out.Write(*b)
	return err
}

// buffers is the memory that chunks are received into, and packed into. It is reused, so that a gigabyte leaves no garbage. All puts and
// gets share it. A transfer holds a buffer while a chunk that was announced does not come, and while the other side does not read one, so
// a server bounds them for each user.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// takeBuffer waits for a buffer of that size.
func (t *talk) takeBuffer(size int) (*[]byte, error) {
	if t.share != nil && t.share.Acquire(t.ctx, 1) != nil {
		return nil, context.Cause(t.ctx)
	}
	b := buffers.Get().(*[]byte)
	*b = slices.Grow((*b)[:0], size)[:size]
	return b, nil
}

// giveBuffer gives one back.
func (t *talk) giveBuffer(b *[]byte) {
	buffers.Put(b)
	if t.share != nil {
		t.share.Release(1)
	}
}

// hearChunk hears a chunk in a buffer that the caller gives back.
func (t *talk) hearChunk(in io.Reader) (*[]byte, error) {
	var header [chunkHeader]byte
	if err := readWhole(in, header[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(header[:])
	if size > manifest.MaxPacked {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", manifest.ErrChunk, size, manifest.MaxPacked)
	}
	packed, err := t.takeBuffer(int(size))
	if err != nil {
		return nil, err
	}
	if err := readWhole(in, *packed); err != nil {
		t.giveBuffer(packed)
		return nil, err
	}
	return packed, nil
}

// fetch says which chunks of a manifest are lacking, hears each of them and nothing else, and hands it to each in a buffer, which each
// gives back.
func (t *talk) fetch(lacks []int, each func(index int, packed *[]byte) error) error {
	if err := t.say(lacksBlob, toBitmap(lacks)); err != nil || len(lacks) == 0 {
		return err
	}
	in, err := t.inbox.Take(t.ctx, t.name(chunksBlob))
	if err != nil {
		return err
	}
	for _, index := range lacks {
		packed, err := t.hearChunk(in)
		if err != nil {
			return err
		}
		if err := each(index, packed); err != nil {
			return err
		}
	}
	n, err := io.Copy(io.Discard, in) // to the end, where the sender learns that all has come
	if err == nil && n > 0 {
		err = fmt.Errorf("%w: %d bytes too many", manifest.ErrChunk, n)
	}
	return err
}

// A bitmap has a bit for each chunk of a manifest, eight in a byte, the lowest for the first.

// toBitmap returns the bits of ascending indices.
func toBitmap(indices []int) (b []byte) {
	for _, i := range indices {
		b = append(b, make([]byte, i/8+1-len(b))...)
		b[i/8] |= 1 << (i % 8)
	}
	return b
}

// fromBitmap returns the indices, ascending and all below count.
func fromBitmap(b []byte, count int) (indices []int, err error) {
	for i := range 8 * len(b) {
		if b[i/8]>>(i%8)&1 == 0 {
			continue
		}
		if i >= count {
			return nil, fmt.Errorf("%w %d of %d", manifest.ErrChunk, i, count)
		}
		indices = append(indices, i)
	}
	return indices, nil
}

const (
	// maxManifest bounds the bytes of a manifest: of 900,000 chunks, on average 140 GB.
	maxManifest = 32 << 20
	// manifestMemory bounds the bytes of the manifests of all requests that go on. What is made of a manifest takes six times as
	// much, once for all gets of the same content.
	manifestMemory = 128 << 20
	// userMemory is of it what one user may take, so that who stalls is in nobody else's way.
	userMemory = maxManifest
	// keptMemory comes on top, for users who hold littleMemory at most: without it four users who stall would make all others wait.
	keptMemory   = 64 << 20
	littleMemory = 1 << 20
	// userChunks is how many chunks of one user's puts and gets may be in memory: 32 MiB, as many as two puts at full pace have and some more. A further
	// one waits, and no other user does.
	userChunks = 64
)

// memory bounds what the requests that go on have in memory. It is safe for concurrent use.
type memory struct {
	buffers int64 // of chunks, of each user

	mu  sync.Mutex
	all int64 // bytes of manifests
	of  map[string]*share
}

// share is what one user has of it.
type share struct {
	manifests int64 // bytes
	buffers   *semaphore.Weighted
}

// share returns a user's. The caller holds mu.
func (m *memory) share(user string) *share {
	if m.of[user] == nil {
		m.of[user] = &share{buffers: semaphore.NewWeighted(m.buffers)}
	}
	return m.of[user]
}

// chunks returns the semaphore of a user's buffers.
func (m *memory) chunks(user string) *semaphore.Weighted {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.share(user).buffers
}

// take fails with ErrBusy when there are not so many bytes for a manifest of a user's.
func (m *memory) take(user string, bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	own, most := m.share(user), int64(manifestMemory)
	if own.manifests+bytes <= littleMemory {
		most += keptMemory
	}
	if m.all+bytes > most || own.manifests+bytes > userMemory {
		return fmt.Errorf("%w: a manifest of %d bytes does not fit beside %d of your running requests and %d of all; the limits are %d and %d",
			ErrBusy, bytes, own.manifests, m.all, userMemory, most)
	}
	m.all += bytes
	own.manifests += bytes
	return nil
}

func (m *memory) give(user string, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all -= bytes
	m.share(user).manifests -= bytes
}
