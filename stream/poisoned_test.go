package stream

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys that are the texts of digests are what package stream advises. Nobody compared
// content with them: what one server had sent under the key of another's content, to a
// client that keeps content, was delivered in its place, complete and without an error.

// TestContentIsWhatItsKeySays: the key's digest counts, by whatever algorithm
// the transfer is hashed, and nothing else is kept under it.
func TestContentIsWhatItsKeySays(t *testing.T) {
	good, evil := content(100_000), content(100_001)[:100_000]
	for _, named := range []Algorithm{SHA256, BLAKE3} {
		for _, hashed := range []Algorithm{SHA256, BLAKE3} {
			t.Run(named.String()+" hashed by "+hashed.String(), func(t *testing.T) {
				store := newMemoryStore()
				inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
					got, key := collect(n.client.streams), Key(named.Of(good).String())
					require.ErrorIs(n, n.mustStart(n.server.peer, evil, key, Hash(hashed)).Wait(n.ctx), ErrDigest)
					require.ErrorIs(n, (<-got).err, ErrDigest)
					require.Empty(n, store.contents)
					require.Empty(n, store.parts)
					require.NoError(n, n.mustStart(n.server.peer, good, key, Hash(hashed)).Wait(n.ctx))
					require.Equal(n, good, (<-got).data)
					require.Equal(n, named.Of(good), store.contents[storeKey{"", named.Of(good).String()}].digest, "by which it is looked for")
					again := n.mustStart(n.server.peer, good, key, Hash(hashed))
					require.NoError(n, again.Wait(n.ctx))
					require.Equal(n, good, (<-got).data)
					require.EqualValues(n, len(good), again.Progress().Resumed)
				})
			})
		}
	}
}

// TestPoisonedStore: what is stored is other content than its key says, or than
// the sender's. Whoever reads no further than the size does not get all of it
// without an error, and the next transfer finds nothing of it.
func TestPoisonedStore(t *testing.T) {
	good, evil := content(100_000), content(100_001)[:100_000]
	for name, c := range map[string]struct {
		key      string
		stored   memoryFile
		replaced bool // at once, for it is known before anything is read
	}{
		"content":                      {SHA256.Of(good).String(), memoryFile{data: evil, digest: SHA256.Of(evil)}, true},
		"content by another algorithm": {SHA256.Of(good).String(), memoryFile{data: evil, digest: BLAKE3.Of(evil)}, false},
		"content that has decayed":     {"k", memoryFile{data: evil, digest: SHA256.Of(good)}, false},
		"part":                         {SHA256.Of(good).String(), memoryFile{data: evil}, false},
		"part whose key says nothing":  {"k", memoryFile{data: evil}, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemoryStore()
			store.put(c.key, c.stored)
			inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
				got := make(chan received, 2)
				save.Handle(n.client.streams, func(in *IncomingBlob) {
					go func() {
						data := make([]byte, len(good))
						_, err := io.ReadFull(in, data) // no further: it does not ask for io.EOF
						got <- received{in, data, err}
						_, _ = io.Copy(io.Discard, in)
					}()
				})
				err := n.mustStart(n.server.peer, good, Key(c.key)).Wait(n.ctx)
				r := <-got
				if c.replaced {
					require.NoError(n, err)
				} else {
					require.ErrorIs(n, err, ErrDigest)
					require.ErrorIs(n, r.err, ErrDigest)
					require.NoError(n, n.mustStart(n.server.peer, good, Key(c.key)).Wait(n.ctx))
					r = <-got
				}
				require.NoError(n, r.err)
				require.Equal(n, good, r.data)
			})
		})
	}
}

// TestArrayReplacesOtherContent under a key that is no digest's text: an older version, or a blob.
func TestArrayReplacesOtherContent(t *testing.T) {
	other := content(100_000)
	store := newMemoryStore()
	store.put("k", memoryFile{data: other, digest: SHA256.Of(other)})
	inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
		ends := n.collectItems(n.client.streams)
		for _, count := range []int{1000, 2000} {
			require.NoError(n, items.Send(n.ctx, n.server.peer, testItems(count), Key("k")))
			require.NoError(n, <-ends)
		}
		require.Zero(n, n.client.peer.Stats().Unstored)
		again, err := items.Start(n.server.peer, testItems(2000), Key("k"))
		require.NoError(n, err)
		require.NoError(n, again.Wait(n.ctx))
		require.EqualValues(n, 2000, again.Progress().Resumed)
	})
}
