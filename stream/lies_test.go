package stream

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A peer's word had content deleted that had been verified before: a header
// with another size, an end with another size, a cancel for the reason that the
// digest differs. The next transfer had to bring all of it again.

// TestLiesDeleteNoContent: what is stored under a key stays until other content
// has been verified, whatever a sender says of it.
func TestLiesDeleteNoContent(t *testing.T) {
	good := content(100_000)
	for _, key := range []string{BLAKE3.Of(good).String(), SHA256.Of(good).String(), "k"} {
		begin := header{id: 1, kind: kindBlob, topic: "save", key: key, hash: BLAKE3, size: int64(len(good))}
		sized := func(size int64) header {
			h := begin
			h.size = size
			return h
		}
		for name, lie := range map[string]func(n *network){
			"a smaller size": func(n *network) { n.says(sized(10), stop{id: 1, code: stopCanceled}) },
			"a larger size":  func(n *network) { n.says(sized(1<<20), stop{id: 1, code: stopCanceled}) },
			"an earlier end": func(n *network) { n.says(sized(-1), end{id: 1, size: 5, sum: make([]byte, 32)}) },
			"a wrong digest": func(n *network) { n.says(begin, stop{id: 1, code: stopDigest}) },
			"other content": func(n *network) {
				n.says(sized(4), part{id: 1, data: []byte("evil")}, end{id: 1, size: 4, sum: sumOf([]byte("good"))})
			},
			"another's topic": func(n *network) {
				n.says(header{id: 1, kind: kindBlob, topic: "none", key: key, hash: BLAKE3, size: 9})
			},
		} {
			t.Run(name+" under "+key[:1], func(t *testing.T) {
				store := newMemoryStore()
				store.put(key, memoryFile{data: good, digest: BLAKE3.Of(good)})
				inNetwork(t, setup{client: Config{Store: &slowStore{memoryStore: store}}}, func(n *network) {
					got := collect(n.client.streams)
					lie(n)
					time.Sleep(time.Minute)
					n.do(n.server.world, func() { n.server.peer.sender.lastID = 1 })
					synctest.Wait() // nobody uses the store now
					require.Contains(n, store.contents, storeKey{"", key})
					require.Equal(n, good, store.contents[storeKey{"", key}].data)
					for _, part := range store.parts {
						require.False(n, part.open)
						require.Empty(n, part.data)
					}
					again := n.mustStart(n.server.peer, good, Key(key))
					require.NoError(n, again.Wait(n.ctx))
					require.EqualValues(n, len(good), again.Progress().Resumed)
					for r := range got {
						if r.err == nil {
							require.Equal(n, good, r.data)
							return
						}
					}
				})
			})
		}
	}
}

// says has the server say what it likes to the client.
func (n *network) says(messages ...any) {
	n.do(n.server.world, func() {
		p := n.server.peer
		p.sender.lastID = 1 << 60 // it hears the answers
		for _, m := range messages {
			switch m := m.(type) {
			case header:
				require.NoError(n, headerMessage.send(p.control.pipe, m))
			case end:
				require.NoError(n, endMessage.send(p.control.pipe, m))
			case stop:
				require.NoError(n, cancelMessage.send(p.control.pipe, m))
			case part:
				require.NoError(n, partMessage.send(p.window.lanes[0], append(appendPartHeader(nil, m), m.data...)))
			}
		}
	})
}

// TestOtherContentUnderAPlainKey: a key that is no digest names what its sender says now. Content
// of another size replaces what is stored, once it has been verified, and needs no second try.
func TestOtherContentUnderAPlainKey(t *testing.T) {
	store := newMemoryStore()
	inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
		got := collect(n.client.streams)
		for _, size := range []int{100_000, 50_000, 200_000} {
			sent := content(size)
			require.NoError(n, n.mustStart(n.server.peer, sent, Key("k")).Wait(n.ctx))
			require.True(n, bytes.Equal(sent, (<-got).data))
			synctest.Wait()
			require.Equal(n, sent, store.contents[storeKey{"", "k"}].data)
		}
	})
}

// TestOtherElementsUnderAKey is the same for arrays.
func TestOtherElementsUnderAKey(t *testing.T) {
	store := newMemoryStore()
	inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
		got := n.collectItems(n.client.streams)
		for _, count := range []int{1000, 500, 2000} {
			sent, err := items.Start(n.server.peer, testItems(count), Key("k"))
			require.NoError(n, err)
			require.NoError(n, sent.Wait(n.ctx))
			require.NoError(n, <-got)
		}
	})
}

// TestArraysReplaceNoNamedBlob: an array's encoding cannot be compared with a digest, so
// an array whose key is the text of a blob's digest was once stored in the blob's place.
func TestArraysReplaceNoNamedBlob(t *testing.T) {
	good, store := content(100_000), newMemoryStore()
	key := BLAKE3.Of(good).String()
	store.put(key, memoryFile{data: good, digest: BLAKE3.Of(good)})
	inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
		got, gotItems := collect(n.client.streams), n.collectItems(n.client.streams)
		for range 2 {
			sent, err := items.Start(n.server.peer, testItems(1000), Key(key))
			require.NoError(n, err)
			require.NoError(n, sent.Wait(n.ctx))
			require.NoError(n, <-gotItems)
			synctest.Wait()
			require.Equal(n, good, store.contents[storeKey{"", key}].data)
			require.Empty(n, store.parts)
		}
		require.EqualValues(n, 2, n.client.peer.Stats().Unstored)
		again := n.mustStart(n.server.peer, good, Key(key))
		require.NoError(n, again.Wait(n.ctx))
		require.EqualValues(n, len(good), again.Progress().Resumed)
		require.Equal(n, good, (<-got).data)
	})
}
