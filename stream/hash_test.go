package stream

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

// TestHashOfATransfer shows how the two ends agree on an algorithm.
func TestHashOfATransfer(t *testing.T) {
	first := fastestFirst()[0]
	for name, c := range map[string]struct {
		server, client Algorithm
		opts           []Option
		want           Algorithm
	}{
		"both ends' fastest":          {want: first},
		"the sender's":                {server: BLAKE3, want: BLAKE3},
		"the receiver's":              {client: SHA256, want: SHA256},
		"the receiver's, not":         {client: fastestFirst()[1], want: SHA256},
		"the transfer's":              {server: SHA256, opts: []Option{Hash(BLAKE3)}, want: BLAKE3},
		"0, which keeps the sender's": {server: BLAKE3, client: SHA256, opts: []Option{Hash(0)}, want: BLAKE3},
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemoryStore()
			s := setup{server: Config{Hash: c.server}, client: Config{Hash: c.client, Store: store}}
			inNetwork(t, s, func(n *network) {
				got := collect(n.client.streams)
				time.Sleep(time.Second) // both have heard of each other
				sent := content(100_000)
				transfer := n.mustStart(n.server.peer, sent, append(c.opts, Key("k"))...)
				require.NoError(n, transfer.Wait(n.ctx))
				require.True(n, bytes.Equal(sent, (<-got).data))
				require.Equal(n, c.want, transfer.header.hash)
				content, err := store.Lookup("", "k")
				require.NoError(n, err)
				require.Equal(n, c.want.Of(sent), content.Digest())
			})
		})
	}
}

func TestHashBeforeThePeerIsHeard(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		p := newPeer(n.server.streams, n.server.peer.conn)
		require.Equal(n, SHA256, p.sender.hash(0))
		p.control.onLimits(limits{transfers: 1})
		require.Equal(n, SHA256, p.sender.hash(0))
		p.control.onLimits(limits{transfers: 1, hashes: []Algorithm{200}})
		require.Equal(n, SHA256, p.sender.hash(0), "what is unknown here")
		p.control.onLimits(limits{transfers: 1, hashes: fastestFirst()})
		require.Equal(n, fastestFirst()[0], p.sender.hash(0))
	})
}

func TestHashesThatAreUnknown(t *testing.T) {
	world, _ := newWorld(t, rpc.Config{}, Config{})
	_, err := Install(world, Config{Hash: 7})
	require.ErrorContains(t, err, "Config.Hash is unknown algorithm 7")
	_, err = Install(world, Config{Hash: NoDigest})
	require.ErrorContains(t, err, "Config.Hash is NoDigest")
	inNetwork(t, setup{}, func(n *network) {
		_, err := save.Start(n.server.peer, bytes.NewReader(nil), 0, Hash(7))
		require.ErrorContains(n, err, "Hash is unknown algorithm 7")
		_, err = save.Start(n.server.peer, bytes.NewReader(nil), 0, Hash(NoDigest), Key("k"))
		require.ErrorContains(n, err, "Key cannot be combined with Hash(NoDigest)")
	})
}

// TestNoDigest: nobody hashes what the application verifies itself, and it
// arrives as other content does.
func TestNoDigest(t *testing.T) { overBackends(t, testNoDigest) }

func testNoDigest(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, client: Config{Store: newMemoryStore()}}, func(n *network) {
		got := collect(n.client.streams)
		for _, size := range []int{0, 1, 100_000} {
			sent := content(size)
			transfer := n.mustStart(n.server.peer, sent, Hash(NoDigest))
			require.NoError(n, transfer.Wait(n.ctx))
			require.True(n, bytes.Equal(sent, (<-got).data))
			require.Empty(n, transfer.reader.total.sum)
		}
		n.requireIdle()
	})
}

// TestHeadersOfTheFuture: they are rejected with a reason, and the connection continues.
func TestHeadersOfTheFuture(t *testing.T) {
	for says, change := range map[string]func(h *header){
		"uses unknown digest algorithm 7; the receiver supports": func(h *header) { h.hash = 7 },
		"have digests of unknown kind 3":                         func(h *header) { h.parts = 3 },
	} {
		inNetwork(t, setup{}, func(n *network) {
			got := collect(n.client.streams)
			var transfer *Transfer
			require.NoError(n, n.server.world.Do(n.ctx, func() {
				transfer = n.mustStart(n.server.peer, content(100_000))
				change(&transfer.header)
			}))
			err := transfer.Wait(n.ctx)
			require.ErrorIs(n, err, ErrRejected)
			require.ErrorContains(n, err, says)
			require.NoError(n, n.mustStart(n.server.peer, content(1000)).Wait(n.ctx), "the connection lives")
			require.NoError(n, (<-got).err)
			n.requireIdle()
		})
	}
}

// A transfer that is resumed may be hashed by another algorithm than before.
func TestResumeByAnotherAlgorithm(t *testing.T) {
	overBackends(t, testResumeByAnotherAlgorithm)
}

func testResumeByAnotherAlgorithm(t *testing.T, via Backend) {
	inNetwork(t, setup{via: via, client: Config{Store: newMemoryStore()}}, func(n *network) {
		got := collect(n.client.streams)
		sent := content(4 << 20)
		first := n.mustStart(n.server.peer, sent, Key("k"), Hash(SHA256))
		for first.Progress().Acked < 1<<20 {
			time.Sleep(time.Millisecond)
		}
		first.Cancel(errTest)
		<-got
		time.Sleep(time.Second)
		for _, a := range []Algorithm{BLAKE3, SHA256} { // the second finds the content, with the digest of the first
			second := n.mustStart(n.server.peer, sent, Key("k"), Hash(a))
			require.NoError(n, second.Wait(n.ctx))
			require.Positive(n, second.Progress().Resumed)
			r := <-got
			require.NoError(n, r.err)
			require.True(n, bytes.Equal(sent, r.data))
		}
	})
}
