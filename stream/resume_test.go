package stream

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rejoin makes a new connection after the old one was cut.
func (n *network) rejoin() {
	n.Helper()
	n.server.peer.Conn().Close(2000, "cut")
	<-n.client.peer.Conn().Done()
	<-n.server.peer.Conn().Done()
	n.connect()
}

func TestBlobResumes(t *testing.T) { overBackends(t, testBlobResumes) }

func testBlobResumes(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, client: Config{Store: newMemoryStore()}}, func(n *network) {
		got := collect(n.client.streams)
		sent := content(4 << 20)
		first := n.mustStart(n.server.peer, sent, Key("k"))
		for first.Progress().Acked < 2<<20 {
			time.Sleep(time.Millisecond)
		}
		n.rejoin()
		require.ErrorIs(n, first.Wait(n.ctx), ErrClosed)
		require.ErrorIs(n, (<-got).err, ErrClosed)

		before := n.server.peer.Conn().Stats().BytesOut
		second := n.mustStart(n.server.peer, sent, Key("k"))
		for p := second.Progress(); p.Resumed == 0; p = second.Progress() {
			time.Sleep(time.Millisecond)
		}
		require.GreaterOrEqual(n, second.Progress().Acked, second.Progress().Resumed, "a progress bar begins there")
		require.NoError(n, second.Wait(n.ctx))
		require.GreaterOrEqual(n, second.Progress().Resumed, int64(2<<20))
		require.Less(n, second.Progress().Resumed, int64(4<<20))
		r := <-got
		require.NoError(n, r.err)
		require.True(n, bytes.Equal(sent, r.data))
		require.Less(n, n.server.peer.Conn().Stats().BytesOut-before, uint64(2<<20+100_000))

		before = n.server.peer.Conn().Stats().BytesOut
		again := n.mustStart(n.server.peer, sent, Key("k"))
		require.NoError(n, again.Wait(n.ctx))
		require.True(n, bytes.Equal(sent, (<-got).data))
		require.Less(n, n.server.peer.Conn().Stats().BytesOut-before, uint64(8<<10))
		require.Equal(n, Progress{Sent: 4 << 20, Acked: 4 << 20, Total: 4 << 20, Resumed: 4 << 20}, again.Progress())
	})
}

// TestProgressOfWhatIsStored looks at a transfer of which the receiver has all,
// before anybody there reads it.
func TestProgressOfWhatIsStored(t *testing.T) {
	sent := content(1 << 20)
	store := newMemoryStore()
	store.put("k", memoryFile{data: sent, digest: SHA256.Of(sent)})
	inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
		come := make(chan *IncomingBlob, 1)
		save.Handle(n.client.streams, func(in *IncomingBlob) { come <- in })
		transfer := n.mustStart(n.server.peer, sent, Key("k"), Hash(SHA256))
		in := <-come
		time.Sleep(time.Second)
		require.Equal(n, Progress{Sent: 1 << 20, Acked: 1 << 20, Total: 1 << 20, Resumed: 1 << 20}, transfer.Progress())
		in.Cancel(nil)
		require.ErrorIs(n, transfer.Wait(n.ctx), ErrCanceled)
		require.Equal(n, Progress{Sent: 1 << 20, Acked: 1 << 20, Total: 1 << 20, Resumed: 1 << 20}, transfer.Progress())
	})
}

// TestStoreOfATransfer: the handler chooses where its transfer is kept.
func TestStoreOfATransfer(t *testing.T) {
	inNetwork(t, setup{client: Config{Store: newMemoryStore()}}, func(n *network) {
		own, sent := newMemoryStore(), content(100_000)
		save.Handle(n.client.streams, func(in *IncomingBlob) {
			switch in.Key() {
			case "own":
				in.SetStore(own)
			case "none":
				in.SetStore(nil)
			}
			go func() { _, _ = io.Copy(io.Discard, in) }()
		})
		for _, key := range []string{"own", "none", "default"} {
			first := n.mustStart(n.server.peer, sent, Key(key))
			require.NoError(n, first.Wait(n.ctx))
			again := n.mustStart(n.server.peer, sent, Key(key))
			require.NoError(n, again.Wait(n.ctx))
			require.Equal(n, key != "none", again.Progress().Resumed > 0, key)
		}
		require.Len(n, own.contents, 1)
	})
}

// TestKeyOfContentWithARest: what is stored under the key is all elements of the array and the
// beginning of another one, so it isn't the array's. The part was once completed with this rest,
// under the digest of the content without it.
func TestKeyOfContentWithARest(t *testing.T) {
	store := newMemoryStore()
	inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
		got := n.collectItems(n.client.streams)
		sent := testItems(100)
		n.storePrefix(store, testItems(101), len(n.encode(sent))+1, 0)
		send := func() error { return items.Send(n.ctx, n.server.peer, sent, Key("k")) }
		require.ErrorIs(n, send(), ErrDigest)
		require.ErrorContains(n, <-got, "are stored")
		require.Empty(n, store.contents)
		require.Empty(n, store.parts, "the part is deleted")
		require.NoError(n, send())
		require.NoError(n, <-got)
	})
}

// TestKeyOfLongerContent: what is stored under the key is longer than the content. That fails one
// transfer, as other content under the key does, and neither the connection nor the next one.
func TestKeyOfLongerContent(t *testing.T) {
	blob := func(size int, known bool) func(p *Peer) (*Transfer, error) {
		return func(p *Peer) (*Transfer, error) {
			told := int64(-1)
			if known {
				told = int64(size)
			}
			return save.Start(p, bytes.NewReader(content(size)), told, Key("k"))
		}
	}
	array := func(p *Peer) (*Transfer, error) { return items.Start(p, testItems(1000), Key("k")) }
	for _, c := range []struct {
		name  string
		start func(p *Peer) (*Transfer, error)
		drops bool // by the store
	}{
		{"blob", blob(5000, true), true},
		{"blob of unknown size", blob(5000, false), false},
		{"blob that ends before its answer", blob(100, false), false},
		{"empty blob", blob(0, false), false},
		{"array", array, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inNetwork(t, setup{client: Config{Store: newMemoryStore(), MaxPending: firstCredit}}, func(n *network) {
				save.Handle(n.client.streams, func(in *IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
				items.Handle(n.client.streams, func(in *IncomingArray[item]) { go func() { _, _ = in.Collect(n.ctx) }() })
				first, err := items.Start(n.server.peer, testItems(90_000), Key("k"))
				require.NoError(n, err)
				for first.Progress().Acked < 45_000 {
					time.Sleep(time.Millisecond)
				}
				first.Cancel(errTest)
				time.Sleep(time.Second)
				if !c.drops {
					out, err := c.start(n.server.peer)
					require.NoError(n, err)
					require.ErrorIs(n, out.Wait(n.ctx), ErrDigest)
				}
				out, err := c.start(n.server.peer)
				require.NoError(n, err)
				require.NoError(n, out.Wait(n.ctx))
				require.NoError(n, n.server.peer.Conn().Err())
			})
		})
	}
}

func TestArrayResumes(t *testing.T) { overBackends(t, testArrayResumes) }

func testArrayResumes(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, client: Config{Store: newMemoryStore(), MaxPending: firstCredit}}, func(n *network) {
		got, cut := make(chan []item, 2), make(chan struct{})
		items.Handle(n.client.streams, func(in *IncomingArray[item]) {
			go func() {
				var all []item
				for batch := range in.Batches(n.ctx) {
					all = append(all, batch...)
					if len(all) >= 60_000 {
						<-cut // so that the first transfer can't end before its connection does
					}
				}
				got <- all
			}()
		})
		sent := testItems(90_000)
		first, err := items.Start(n.server.peer, sent, Key("k"))
		require.NoError(n, err)
		for first.Progress().Acked < 45_000 {
			time.Sleep(time.Millisecond)
		}
		whole := first.reader.total.size
		n.rejoin()
		close(cut)
		require.ErrorIs(n, first.Wait(n.ctx), ErrClosed)
		<-got

		before := n.server.peer.Conn().Stats().BytesOut
		second, err := items.Start(n.server.peer, sent, Key("k"))
		require.NoError(n, err)
		require.NoError(n, second.Wait(n.ctx))
		require.GreaterOrEqual(n, second.Progress().Resumed, int64(45_000))
		all := <-got
		require.Len(n, all, len(sent))
		require.EqualValues(n, 89_999, all[89_999].ID)
		whole = max(whole, second.reader.total.size)
		require.Less(n, n.server.peer.Conn().Stats().BytesOut-before, uint64(whole*6/10))
	})
}

func TestOtherContentUnderTheKeyIsFoundOut(t *testing.T) {
	overBackends(t, testOtherContentUnderTheKeyIsFoundOut)
}

func testOtherContentUnderTheKeyIsFoundOut(t *testing.T, via Backend) {
	store := newMemoryStore()
	inNetwork(t, setup{via: via, client: Config{Store: store}}, func(n *network) {
		got := collect(n.client.streams)
		sent := content(4 << 20)
		first := n.mustStart(n.server.peer, sent, Key("k"))
		for first.Progress().Acked < 1<<20 {
			time.Sleep(time.Millisecond)
		}
		first.Cancel(errTest)
		<-got
		time.Sleep(time.Second)

		other := bytes.Clone(sent)
		other[10]++
		require.ErrorIs(n, n.mustStart(n.server.peer, other, Key("k")).Wait(n.ctx), ErrDigest)
		require.ErrorIs(n, (<-got).err, ErrDigest)

		require.NoError(n, n.mustStart(n.server.peer, other, Key("k")).Wait(n.ctx), "the part was not deleted")
		require.True(n, bytes.Equal(other, (<-got).data))
	})
}

func TestWrongDigestLeavesNothing(t *testing.T) { overBackends(t, testWrongDigestLeavesNothing) }

func testWrongDigestLeavesNothing(t *testing.T, via Backend) {
	store := newMemoryStore()
	inNetwork(t, setup{via: via, client: Config{Store: store}}, func(n *network) {
		got := collect(n.client.streams)
		require.ErrorIs(n, n.mustStartWrong(content(4000), Key("k")).Wait(n.ctx), ErrDigest)
		require.ErrorIs(n, (<-got).err, ErrDigest)
		time.Sleep(time.Second)
		_, err := store.Lookup("", "k")
		require.ErrorIs(n, err, fs.ErrNotExist)
		part, err := store.Open("", "k", 4000)
		require.NoError(n, err)
		require.Zero(n, part.Offset())
		require.NoError(n, part.Close())
	})
}

func TestResumeOfUnknownSize(t *testing.T) { overBackends(t, testResumeOfUnknownSize) }

func testResumeOfUnknownSize(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, server: Config{Store: newMemoryStore()}}, func(n *network) {
		got := collect(n.server.streams)
		sent := content(3 << 20)
		cut := io.MultiReader(bytes.NewReader(sent[:2<<20]), iotestErr{errTest})
		first, err := save.Start(n.client.peer, cut, -1, Key("k"))
		require.NoError(n, err)
		require.ErrorIs(n, first.Wait(n.ctx), errTest)
		<-got
		time.Sleep(time.Second)
		second, err := save.Start(n.client.peer, bytes.NewReader(sent), -1, Key("k"))
		require.NoError(n, err)
		require.NoError(n, second.Wait(n.ctx))
		require.True(n, bytes.Equal(sent, (<-got).data))
	})
}

func TestStoredSizes(t *testing.T) { overBackends(t, testStoredSizes) }

func testStoredSizes(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, client: Config{Store: newMemoryStore()}}, func(n *network) {
		got := collect(n.client.streams)
		for _, size := range []int{0, 1, earlyKeyedBytes, earlyKeyedBytes + 1, 100_000} {
			sent := content(size)
			for range 2 { // the second time from the store
				require.NoError(n, n.mustStart(n.server.peer, sent, Key(string(rune(size)))).Wait(n.ctx))
				require.True(n, bytes.Equal(sent, (<-got).data))
			}
		}
		n.requireIdle()
	})
}

// brokenStore fails, and says where it lies.
type brokenStore struct{ err error }

func (s brokenStore) Open(string, string, int64) (Part, error) { return nil, s.err }
func (s brokenStore) Lookup(string, string) (Content, error)   { return nil, fs.ErrNotExist }
func (s brokenStore) Remove(string, string) error              { return s.err }

func TestStoreThatFails(t *testing.T) { overBackends(t, testStoreThatFails) }

func testStoreThatFails(t *testing.T, via Backend) {
	secret := errors.New("open /var/saves: permission denied")
	inNetwork(t, setup{via: via, client: Config{Store: brokenStore{secret}}}, func(n *network) {
		got := collect(n.client.streams)
		err := n.mustStart(n.server.peer, content(100), Key("k")).Wait(n.ctx)
		require.ErrorIs(n, err, ErrRejected)
		require.ErrorContains(n, err, "could not store")
		require.NotContains(n, err.Error(), "/var")
		require.ErrorIs(n, (<-got).err, secret)
	})
	inNetwork(t, setup{via: via, client: Config{Store: brokenStore{ErrStoreFull}}}, func(n *network) {
		got := collect(n.client.streams)
		require.NoError(n, n.mustStart(n.server.peer, content(100), Key("k")).Wait(n.ctx))
		require.NoError(n, (<-got).err)
	})
}

// TestStoreThatFills has a store find in the middle that there is no room.
func TestStoreThatFills(t *testing.T) {
	store := newMemoryStore()
	inNetwork(t, setup{client: Config{Store: fillingStore{store}}}, func(n *network) {
		got := collect(n.client.streams)
		sent := content(1 << 20)
		for i := range 2 {
			require.NoError(n, save.Send(n.ctx, n.server.peer, bytes.NewReader(sent), -1, Key("k")))
			r := <-got
			require.NoError(n, r.err)
			require.True(n, bytes.Equal(sent, r.data))
			require.EqualValues(n, i+1, n.client.peer.Stats().Unstored)
			require.Empty(n, store.parts)
		}
		wrong := SHA256.Of(nil).String()
		require.ErrorIs(n, save.Send(n.ctx, n.server.peer, bytes.NewReader(sent), -1, Key(wrong)), ErrDigest)
		require.ErrorIs(n, (<-got).err, ErrDigest)
	})
}

// fillingStore takes 300,000 bytes of a part.
type fillingStore struct{ *memoryStore }

func (s fillingStore) Open(identity, key string, size int64) (Part, error) {
	p, err := s.memoryStore.Open(identity, key, size)
	if err != nil {
		return nil, err
	}
	return &fullPart{Part: p, left: 300_000}, nil
}

// A part may end in the middle of an element, which is then sent again from its beginning.
func TestCutElementIsComparedWithWhatIsStored(t *testing.T) {
	for name, damage := range map[string]byte{"same": 0, "damaged": 1} {
		t.Run(name, func(t *testing.T) {
			store := newMemoryStore()
			inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
				got := n.collectItems(n.client.streams)
				sent := testItems(100)
				n.storePrefix(store, sent, 500, damage)
				transfer, err := items.Start(n.server.peer, sent, Key("k"))
				require.NoError(n, err)
				err = errors.Join(transfer.Wait(n.ctx), <-got)
				if damage == 0 {
					require.NoError(n, err)
					require.Positive(n, transfer.Progress().Resumed)
					return
				}
				require.ErrorIs(n, err, ErrDigest)
				require.ErrorContains(n, err, "differs from the stored one")
				time.Sleep(time.Second)
				require.Empty(n, store.parts, "it is deleted")
				require.Empty(n, store.contents)
			})
		})
	}
}

// storePrefix stores the first bytes of an array's encoding, the last one with damage.
func (n *network) storePrefix(store Store, all []item, size int, damage byte) {
	prefix := n.encode(all)[:size]
	prefix[size-1] ^= damage
	part, err := store.Open("", "k", -1)
	require.NoError(n, err)
	_, err = part.Write(prefix)
	require.NoError(n, err)
	require.NoError(n, part.Close())
}

// encode returns the encoding of an array that fits into a part.
func (n *network) encode(all []item) []byte {
	b := newPageBlock(partBytes)
	defer b.Free()
	source := &arraySource[item]{array: items, items: all}
	require.ErrorIs(n, source.fill(b, -1), io.EOF)
	return bytes.Clone(b.payload())
}

// TestWrittenBlobThatIsStored: a writer of content that the receiver has, by
// its key, once got the error of a closed pipe, although all was well.
func TestWrittenBlobThatIsStored(t *testing.T) {
	inNetwork(t, setup{client: Config{Store: newMemoryStore()}}, func(n *network) {
		save.Handle(n.client.streams, func(in *IncomingBlob) { go func() { _, _ = io.Copy(io.Discard, in) }() })
		data := content(500_000)
		for _, resumed := range []int64{0, 500_000} {
			out, err := save.Create(n.server.peer, Key("k"), Rate(1_000_000))
			require.NoError(n, err)
			for part := range slices.Chunk(data, 50_000) {
				wrote, err := out.Write(part)
				require.NoError(n, err)
				require.Equal(n, len(part), wrote)
				time.Sleep(10 * time.Millisecond)
			}
			require.NoError(n, out.Close())
			require.NoError(n, out.Wait(n.ctx))
			require.Equal(n, resumed, out.Progress().Resumed)
			_, err = out.Write(data)
			require.ErrorIs(n, err, io.ErrClosedPipe)
		}
	})
}
