package stream

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The last piece of what was stored waits for more content without being
// consumed, and another waits for room to be delivered. Neither was charged: a
// peer with many transfers had this end hold 32 KiB for each, beside all limits.

// TestPieceThatWaitsIsCharged has a sender announce more of a blob than is
// stored, and send nothing.
func TestPieceThatWaitsIsCharged(t *testing.T) {
	const stored = 100 * partBytes
	block := newPageBlock(partBytes)
	defer block.Free()
	for name, row := range map[string]struct {
		reads bool
		least int64 // blocks that are held
	}{
		"while more content is missing":       {true, 1},
		"while the application takes nothing": {false, maxDecoded/block.cost() + 2}, // one is held, one was read behind it
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemoryStore()
			store.put("k", memoryFile{data: content(stored)})
			inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
				save.Handle(n.client.streams, func(in *IncomingBlob) {
					if row.reads {
						go func() { _, _ = io.Copy(io.Discard, in) }()
					}
				})
				n.says(header{id: 1, kind: kindBlob, topic: "save", key: "k", hash: BLAKE3, size: 2 * stored})
				time.Sleep(time.Second)
				sums, _ := n.client.peer.account.Charge()
				require.GreaterOrEqual(n, sums.Borrowed-incomingBytes, row.least*block.cost())
				n.says(stop{id: 1, code: stopCanceled})
				time.Sleep(time.Second)
				sums, _ = n.client.peer.account.Charge()
				require.Zero(n, sums)
			})
		})
	}
}
