package desk

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
	"github.com/quivernet/quiver/stream/pieces"
)

// An asking is a request that runs, and what a test sends beside it.
type asking[R any] struct {
	*pieces.Talk
	ctx         context.Context // of what is said
	over, ended chan struct{}
	cause       error // why the test ends it, when over is closed
	answer      R     // when ended is closed
	err         error // the same
}

func startAsking[A, R any](ctx context.Context, c *Client, r *rpc.Request[A, R], n number, a A) *asking[R] {
	q, talking := &asking[R]{over: make(chan struct{}), ended: make(chan struct{})}, make(chan struct{})
	go func() {
		defer close(q.ended)
		q.answer, q.err = pieces.WithRequest(ctx, func(ctx context.Context) (R, error) {
			return r.Ask(ctx, c.desk, a)
		}, func(ctx context.Context) error {
			q.ctx, q.Talk = ctx, c.talk(n)
			close(talking)
			select {
			case <-q.over:
				return q.cause
			case <-ctx.Done():
				return nil
			}
		})
	}()
	<-talking
	return q
}

// options are the options of a blob that is sent.
func (q *asking[R]) options(blob string) []stream.Option {
	return []stream.Option{stream.Name(q.Name + " " + blob), stream.Hash(stream.NoDigest)}
}

// wait ends what is sent, with that reason, and returns the result of the request.
func (q *asking[R]) wait(err error) (R, error) {
	q.cause = err
	close(q.over)
	<-q.ended
	return q.answer, q.err
}

// The manifest of a put that was refused was never read, and when there were
// four the next one never began.
func TestRefusedPutsAreInNobodysWay(t *testing.T) {
	c := newHost(t, versions.Config{}, nil).dial()
	_, err := put(t, c, versions.Request{}, []byte("first"))
	require.NoError(t, err)
	for range 10 {
		_, err := put(t, c, versions.Request{}, []byte("second"))
		require.ErrorIs(t, err, versions.ErrConflict)
	}
	_, err = put(t, c, versions.Request{Mode: versions.Force}, []byte("second"))
	require.NoError(t, err)
}

// A hanging is a store that does not answer.
type hanging struct {
	store.Store
	answer chan struct{}
}

func (s *hanging) List(ctx context.Context, dir string) iter.Seq2[store.Object, error] {
	<-s.answer
	return s.Store.List(ctx, dir)
}

// Whatever a client requested was begun, even a thousand requests.
func TestJobsOfAClientAreBounded(t *testing.T) {
	hangs := &hanging{answer: make(chan struct{})}
	c := newHost(t, versions.Config{}, func(s store.Store) store.Store { hangs.Store = s; return hangs }).dial()
	refused := make(chan error, 2*maxJobs)
	var asking sync.WaitGroup
	for range maxJobs + 4 {
		asking.Go(func() {
			_, err := c.List(t.Context())
			refused <- err
		})
	}
	for range 4 {
		err := <-refused
		require.ErrorIs(t, err, rpc.ErrBacklogFull)
		require.True(t, Transient(err), "it may be asked again")
	}
	close(hangs.answer)
	asking.Wait()
	for range maxJobs {
		require.NoError(t, <-refused)
	}
}

// A put's manifest no longer counted once its chunks were there, but stayed in
// memory until the disk had it: a client that sent manifests faster than the
// disk writes them had as many of 32 MiB in memory as there may be requests.
func TestManifestsCountUntilTheyAreStored(t *testing.T) {
	disk := &slow{entered: make(chan struct{}, 100), goOn: make(chan struct{})}
	h := newHost(t, versions.Config{}, func(s store.Store) store.Store { disk.Store = s; return disk })
	c := h.dial()
	m := &manifest.Manifest{Entries: []manifest.Entry{{Path: manifest.Root, Kind: manifest.Dir}}}
	for i := range 1000 {
		m.Entries = append(m.Entries, manifest.Entry{Path: fmt.Sprintf("%06d%s", i, strings.Repeat("x", 200)), Kind: manifest.Dir})
	}
	b := m.Append(nil)
	putting := make(chan error, 1)
	go func() {
		putting <- putManifest(t, c, "world", b)
	}()
	goOn := sync.OnceFunc(func() { close(disk.goOn) })
	defer goOn()
	<-disk.entered
	held := func() int64 {
		h.server.memory.mu.Lock()
		defer h.server.memory.mu.Unlock()
		return h.server.memory.all
	}
	require.EqualValues(t, len(b), held())
	goOn()
	require.NoError(t, <-putting)
	require.Zero(t, held())
}

// putManifest puts a save that has no chunk.
func putManifest(t *testing.T, c *Client, name string, b []byte) error {
	n := c.next()
	_, err := pieces.WithRequest(t.Context(), func(ctx context.Context) (Made, error) {
		return askPut.Ask(ctx, c.desk, putArgs{n, versions.Request{Name: name, Machine: "pc", Content: cdc.Sum(b)}})
	}, func(ctx context.Context) error {
		_, err := c.talk(n).Offer(ctx, b, 0)
		return err
	})
	return err
}

// A list makes as many requests as it has pages.
func TestPages(t *testing.T) {
	const saves = 2*pageSize + 1
	h := newHost(t, versions.Config{}, nil)
	c := h.dial()
	u, err := h.all.User(t.Context(), "alice")
	require.NoError(t, err)
	empty := (&manifest.Manifest{Entries: []manifest.Entry{{Path: manifest.Root, Kind: manifest.Dir}}}).Append(nil)
	for i := range saves {
		p, err := u.Begin(t.Context(), versions.Request{Name: fmt.Sprintf("save %04d", i), Machine: "pc", Content: cdc.Sum(empty)})
		require.NoError(t, err)
		_, err = p.Lacks(t.Context(), empty)
		require.NoError(t, err)
		_, _, err = p.Commit(t.Context())
		require.NoError(t, err)
	}
	for range saves - 1 {
		_, err = u.Remove(t.Context(), "save 0000", "pc", versions.Ref{})
		require.NoError(t, err)
		_, _, err = u.Restore(t.Context(), "save 0000", 1, "pc")
		require.NoError(t, err)
	}
	list, err := c.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, saves)
	for i, v := range list {
		require.Equal(t, fmt.Sprintf("save %04d", i), v.Name)
	}
	history, err := c.History(t.Context(), "save 0000")
	require.NoError(t, err)
	require.Len(t, history, 2*saves-1)
	for i, v := range history {
		require.Equal(t, i+1, v.Number)
	}
}

// Four gets of a save of one chunk made the server hold 32 MiB for each, which
// a client sent as a bitmap of it.
func TestBitmapsHaveABitForEachChunk(t *testing.T) {
	c := newHost(t, versions.Config{}, nil).dial()
	_, err := put(t, c, versions.Request{}, noise(1, 1000))
	require.NoError(t, err)
	n := c.next()
	q := startAsking(t.Context(), c, askGet, n, getArgs{Number: n, Name: "world"})
	_, err = q.ReadBlob(q.ctx, versionBlob, maxVersion)
	require.NoError(t, err)
	_, err = q.ReadBlob(q.ctx, pieces.Manifest, maxManifest)
	require.NoError(t, err)
	_, err = q.wait(q.SendBlob(q.ctx, "lacks", []byte{1, 0}))
	require.ErrorIs(t, err, pieces.ErrViolation, "two bytes for one chunk")
}

// A manifest beyond the limit was refused as if for now, and clients sent it again and again.
func TestManifestThatIsTooLargeIsRefusedForGood(t *testing.T) {
	c := newHost(t, versions.Config{}, nil).dial()
	n := c.next()
	q := startAsking(t.Context(), c, askPut, n, putArgs{n, versions.Request{Name: "world", Machine: "pc"}})
	_, err := q.wait(q.SendBlob(q.ctx, pieces.Manifest, make([]byte, maxManifest+1)))
	require.ErrorIs(t, err, manifest.ErrManifest)
	require.False(t, Transient(err))
}

// A put whose client stalled kept the memory of all chunks that had been stored
// at once, four megabytes of it.
func TestStalledPutsHoldNoChunks(t *testing.T) {
	const puts, chunks = 4, 26 // of each; as many streams as a connection may send at once
	h := newHost(t, versions.Config{}, nil)
	c := h.dial()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var content [puts][]byte
	for i := range content {
		content[i] = noise(uint64(i), chunks*cdc.MaxChunk)
	}
	before := testkit.Heap()
	for _, data := range content {
		stallPut(ctx, t, c, data)
	}
	for stored := 0; stored < puts*(chunks-1); time.Sleep(time.Millisecond) {
		stored = 0
		for _, err := range h.store.List(t.Context(), "") {
			require.NoError(t, err)
			stored++
		}
	}
	require.Eventually(t, func() bool { return testkit.Heap()-before < puts*chunks*cdc.MaxChunk/2 }, time.Minute, 10*time.Millisecond)
	runtime.KeepAlive(content)
}

// stallPut puts content, and sends all chunks but the last.
func stallPut(ctx context.Context, t *testing.T, c *Client, content []byte) {
	file := manifest.Entry{Path: manifest.Root, Kind: manifest.File, Size: int64(len(content))}
	chunk := func(i int) []byte { return content[i*cdc.MaxChunk:][:cdc.MaxChunk] }
	for i := range len(content) / cdc.MaxChunk {
		file.Chunks = append(file.Chunks, cdc.Chunk{Digest: cdc.Sum(chunk(i)), Size: cdc.MaxChunk})
	}
	b, n := (&manifest.Manifest{Entries: []manifest.Entry{file}}).Append(nil), c.next()
	q := startAsking(ctx, c, askPut, n, putArgs{n, versions.Request{Name: fmt.Sprint("world ", n), Machine: "pc", Content: cdc.Sum(b)}})
	lacks, err := q.Offer(q.ctx, b, len(file.Chunks))
	require.NoError(t, err)
	out, err := talks.Create(q.Peer, q.options("pieces")...)
	require.NoError(t, err)
	for _, i := range lacks[:len(lacks)-1] {
		_, err = out.Write(framed(cdc.Pack(nil, chunk(i))))
		require.NoError(t, err)
	}
}

// A put made the server take 512 KiB for a chunk that was announced and never
// sent, or that its store was slow to take, however many a user had of them: 2
// MiB for each connection by a few bytes.
func TestAnnouncedChunksAreBounded(t *testing.T) {
	const conns, puts, most = 4, 4, 4 // puts of a connection: as many streams as it may send at once
	h := newHost(t, versions.Config{}, nil)
	require.NoError(t, h.server.World().Do(t.Context(), func() { h.server.memory.buffers = most }))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var stalled []*asking[Made]
	clients := make([]*Client, conns)
	for i := range clients {
		clients[i] = h.dial()
	}
	for i, c := range clients {
		for j := range puts {
			stalled = append(stalled, beginPut(ctx, t, c, uint64(puts*i+j)))
		}
	}
	before := testkit.Heap()
	for _, q := range stalled {
		announceChunk(t, q)
	}
	buffers := h.server.memory.share("alice").buffers
	require.Eventually(t, func() bool {
		free := buffers.TryAcquire(1)
		if free {
			buffers.Release(1)
		}
		return !free
	}, time.Minute, time.Millisecond, "all of hers are taken")
	require.Less(t, testkit.Heap()-before, conns*puts*cdc.MaxPacked/2)

	h.config.Token = addUser(t, h, "bob")
	_, err := put(t, h.dial(), versions.Request{}, noise(1, 1<<20))
	require.NoError(t, err, "others do not wait")
	leave()
	for _, q := range stalled {
		<-q.ended
	}
	_, err = put(t, clients[0], versions.Request{}, noise(2, 8<<20))
	require.NoError(t, err, "nor does she, when the others have gone")
}

func addUser(t *testing.T, h *host, name string) (token string) {
	token, err := users.Add(h.tokens, name)
	require.NoError(t, err)
	return token
}

// beginPut begins a put of one chunk.
func beginPut(ctx context.Context, t *testing.T, c *Client, seed uint64) *asking[Made] {
	chunk := cdc.Chunk{Digest: cdc.Sum(noise(seed, 10)), Size: cdc.MaxChunk}
	b := (&manifest.Manifest{Entries: []manifest.Entry{{Path: manifest.Root, Kind: manifest.File, Size: int64(chunk.Size), Chunks: []cdc.Chunk{chunk}}}}).Append(nil)
	n := c.next()
	q := startAsking(ctx, c, askPut, n, putArgs{n, versions.Request{Name: fmt.Sprint("world ", seed), Machine: "pc", Content: cdc.Sum(b)}})
	_, err := q.Offer(q.ctx, b, 1)
	require.NoError(t, err)
	return q
}

// announceChunk sends nothing of the chunk but its size.
func announceChunk(t *testing.T, q *asking[Made]) {
	out, err := talks.Create(q.Peer, q.options("pieces")...)
	require.NoError(t, err)
	_, err = out.Write(binary.LittleEndian.AppendUint32(nil, cdc.MaxPacked))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return out.Progress().Sent == 4 }, time.Minute, time.Millisecond)
}
