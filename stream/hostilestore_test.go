package stream

import (
	"bytes"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/crew"
)

// slowStore is a store that takes time to look for contents and to read them,
// and knows how many were looked for or open at once.
type slowStore struct {
	*memoryStore
	looks      time.Duration
	open, most atomic.Int32

	reads, mostReads atomic.Int32
}

// slowContent is a content of a slowStore.
type slowContent struct {
	Content
	store *slowStore
}

func (s *slowStore) Lookup(identity, key string) (Content, error) {
	s.most.Store(max(s.most.Load(), s.open.Add(1)))
	time.Sleep(s.looks)
	c, err := s.memoryStore.Lookup(identity, key)
	if err != nil {
		s.open.Add(-1)
		return nil, err
	}
	return &slowContent{c, s}, nil
}

func (c *slowContent) ReadAt(b []byte, off int64) (int, error) {
	c.store.mostReads.Store(max(c.store.mostReads.Load(), c.store.reads.Add(1)))
	defer c.store.reads.Add(-1)
	time.Sleep(100 * time.Millisecond)
	return c.Content.ReadAt(b, off)
}

func (c *slowContent) Close() error {
	c.store.open.Add(-1)
	return c.Content.Close()
}

// Content of an array that is stored under its key was once read and decoded to
// its end even after its transfer was canceled: a client that began and canceled
// transfers could cause any number of such reads, each with an open file.
func TestCanceledTransfersReadNoStore(t *testing.T) {
	store := &slowStore{memoryStore: newMemoryStore()}
	inNetwork(t, setup{server: Config{Store: store}}, func(n *network) {
		got := n.collectItems(n.server.streams)
		sent := testItems(90_000)
		first, err := items.Start(n.client.peer, sent, Key("k"))
		require.NoError(n, err)
		require.NoError(n, first.Wait(n.ctx))
		require.NoError(n, <-got)
		for range 50 {
			t, err := items.Start(n.client.peer, sent, Key("k"))
			require.NoError(n, err)
			time.Sleep(50 * time.Millisecond) // its header is there
			t.Cancel(nil)
			require.Error(n, <-got)
		}
		require.LessOrEqual(n, store.most.Load(), int32(4), "no more contents are open than a peer may have transfers")
		time.Sleep(200 * time.Millisecond)
		require.Zero(n, store.open.Load())
	})
}

// The same of a store that is slow to say what it has: nobody waited for its
// answers, and there was one more asker for each header.
func TestCanceledTransfersAskNoStoreWithoutEnd(t *testing.T) {
	store := &slowStore{memoryStore: newMemoryStore(), looks: 10 * time.Second}
	inNetwork(t, setup{server: Config{Store: store}}, func(n *network) {
		collect(n.server.streams)
		for range 50 {
			t, err := save.Start(n.client.peer, strings.NewReader("save"), 4, Key("k"))
			require.NoError(n, err)
			time.Sleep(50 * time.Millisecond) // its header is there
			t.Cancel(nil)
		}
		require.EqualValues(n, 8, store.most.Load(), "twice as many as a peer may have transfers")
		time.Sleep(time.Minute)
		require.NoError(n, save.Send(n.ctx, n.client.peer, strings.NewReader("save"), 4, Key("k")))
	})
}

// Headers of a few bytes each had contents that are stored under their keys
// read and hashed, as many at once as all peers may have transfers: a few
// connections kept all processors busy, also those that play needs.
func TestReplaysAreBounded(t *testing.T) {
	store := &slowStore{memoryStore: newMemoryStore()}
	inNetwork(t, setup{server: Config{Store: store}}, func(n *network) {
		n.server.streams.turns = crew.NewTurns(2)
		save.Handle(n.server.streams, func(in *IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
		sent := content(1 << 20)
		send := func(key string) *Transfer {
			t, err := save.Start(n.client.peer, bytes.NewReader(sent), int64(len(sent)), Key(key))
			require.NoError(n, err)
			return t
		}
		keys := []string{"a", "b", "c", "d"}
		for _, key := range keys {
			require.NoError(n, send(key).Wait(n.ctx))
		}
		require.Zero(n, store.mostReads.Load())
		var all []*Transfer
		for _, key := range keys {
			all = append(all, send(key))
		}
		for _, t := range all {
			require.NoError(n, t.Wait(n.ctx))
			require.EqualValues(n, len(sent), t.Progress().Resumed)
		}
		require.EqualValues(n, 2, store.mostReads.Load())
	})
}
