package desk

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/stream"
)

// talks are what is said about requests beside their arguments and answers: a stream either way of frames, each of which is how many
// bytes it has (uvarint), and these. The streams have no digest, as manifests and chunks have theirs.
var talks = stream.NewBlob("talk")

const (
	// maxVersion bounds a version in bytes: two names of 79, all of them escaped perhaps, and 280 beside.
	maxVersion = 2 << 10
	// spokenAtOnce is how many bytes of frames are handed to the stream at once.
	spokenAtOnce = 32 << 10
	// sizeBuffer is the size of the reader for frames' sizes: so small that bufio reads chunks past it, without a copy.
	sizeBuffer = 64
)

// talk is one side of what is said about a request. One goroutine at a time may use it.
type talk struct {
	ctx    context.Context // ends both streams
	peer   *stream.Peer
	inbox  *stream.Inbox
	number number
	rate   int                 // bytes a second that are said; 0: no limit
	share  *semaphore.Weighted // of buffers that it may hold; nil: any number

	hears *bufio.Reader // nil until something was heard
	says  *bufio.Writer // nil until something was said
	sent  *stream.OutgoingBlob
}

// say says a frame.
func (t *talk) say(frame []byte) error {
	if t.says == nil {
		if err := t.begin(); err != nil {
			return err
		}
	}
	_, err := t.says.Write(binary.AppendUvarint(t.says.AvailableBuffer(), uint64(len(frame))))
	if err == nil {
		_, err = t.says.Write(frame)
	}
	return err
}

// begin begins the stream to the other side.
func (t *talk) begin() (err error) {
	t.sent, err = talks.Create(t.peer, stream.Name(t.number.String()), stream.Hash(stream.NoDigest), stream.Rate(max(0, t.rate)))
	if err == nil {
		t.says = bufio.NewWriterSize(t.sent, spokenAtOnce)
		context.AfterFunc(t.ctx, func() { t.sent.Cancel(context.Cause(t.ctx)) })
	}
	return err
}

// flush sends what was said.
func (t *talk) flush() error {
	if t.says == nil {
		return nil
	}
	return t.says.Flush()
}

// finish says that no frame follows.
func (t *talk) finish() error {
	return errors.Join(t.flush(), t.sent.Close())
}

// end is finish, and returns when the other side has heard all.
func (t *talk) end() error {
	if err := t.finish(); err != nil {
		return err
	}
	return t.sent.Wait(t.ctx)
}

// next waits for a frame, and returns how many bytes it has. One of more than most fails with kind.
func (t *talk) next(kind error, most int) (size int, err error) {
	if err := t.flush(); err != nil {
		return 0, err
	}
	if t.hears == nil {
		in, err := t.inbox.Take(t.ctx, t.number.String())
		if err != nil {
			return 0, err
		}
		t.hears = bufio.NewReaderSize(in, sizeBuffer)
	}
	n, err := binary.ReadUvarint(t.hears)
	if err == nil && n > uint64(most) {
		err = fmt.Errorf("%w: %d bytes, the limit is %d", kind, n, most)
	}
	return int(n), whole(err)
}

// read reads a frame of that size, for which it takes memory as it comes.
func (t *talk) read(size int) ([]byte, error) {
	var b bytes.Buffer
	_, err := io.CopyN(&b, t.hears, int64(size))
	return b.Bytes(), whole(err)
}

// hear waits for a frame and reads it.
func (t *talk) hear(kind error, most int) ([]byte, error) {
	size, err := t.next(kind, most)
	if err != nil {
		return nil, err
	}
	return t.read(size)
}

// offer says a manifest of so many chunks, and hears which of them the other side lacks.
func (t *talk) offer(bytes []byte, count int) (lacks []int, err error) {
	if err := t.say(bytes); err != nil {
		return nil, err
	}
	b, err := t.hear(manifest.ErrManifest, (count+7)/8)
	if err != nil {
		return nil, err
	}
	return fromBitmap(b, count)
}

// textOf writes a version, in JSON.
func textOf(v versions.Version) []byte {
	b, _ := json.Marshal(v) // never fails: there are only strings, numbers and a time
	return b
}

// hearVersion hears what textOf wrote.
func (t *talk) hearVersion() (v versions.Version, err error) {
	b, err := t.hear(manifest.ErrManifest, maxVersion)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	return v, err
}

// whole makes the end of a stream before its last frame an error.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// sayChunks says a chunk for each of indices, which pack appends to a buffer, and returns when the other side has all.
func (t *talk) sayChunks(indices []int, pack func(buffer []byte, index int) ([]byte, error)) (err error) {
	for _, index := range indices {
		if err := t.sayChunk(index, pack); err != nil {
			return err
		}
	}
	return t.end()
}

// sayChunk packs a chunk and sends it, in a buffer that it holds until the stream has taken the chunk.
func (t *talk) sayChunk(index int, pack func(buffer []byte, index int) ([]byte, error)) error {
	b, err := t.takeBuffer(0)
	if err != nil {
		return err
	}
	defer t.giveBuffer(b)
	if *b, err = pack(*b, index); err != nil {
		return err
	}
	return t.say(*b)
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
func (t *talk) hearChunk() (*[]byte, error) {
	size, err := t.next(manifest.ErrChunk, manifest.MaxPacked)
	if err != nil {
		return nil, err
	}
	packed, err := t.takeBuffer(size)
	if err != nil {
		return nil, err
	}
	if _, err = io.ReadFull(t.hears, *packed); err != nil {
		t.giveBuffer(packed)
		return nil, whole(err)
	}
	return packed, nil
}

// fetch says which chunks of a manifest are lacking, which is all that this side says, hears each of them and nothing else, and hands it
// to each in a buffer, which each gives back.
func (t *talk) fetch(lacks []int, each func(index int, packed *[]byte) error) error {
	if err := t.say(toBitmap(lacks)); err != nil {
		return err
	}
	if err := t.finish(); err != nil {
		return err
	}
	for _, index := range lacks {
		packed, err := t.hearChunk()
		if err != nil {
			return err
		}
		if err := each(index, packed); err != nil {
			return err
		}
	}
	n, err := io.Copy(io.Discard, t.hears) // to the end, where the sender learns that all has come
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
