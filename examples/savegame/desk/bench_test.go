package desk

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/tree"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/disk"
)

const benchBytes = 1 << 30

// BenchmarkFirstPut puts a file of random bytes that the server has nothing of, from its scan to the durable version; the others
// stream the same bytes bare, to nowhere and to a store in a folder.
func BenchmarkFirstPut(b *testing.B) {
	content := make([]byte, benchBytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	path := filepath.Join(b.TempDir(), "save")
	require.NoError(b, os.WriteFile(path, content, 0o600))
	b.Run("put", func(b *testing.B) {
		b.SetBytes(benchBytes)
		for b.Loop() {
			b.StopTimer()
			c := newHost(b, versions.Config{}, nil).dial()
			b.StartTimer()
			src, err := tree.Scan(b.Context(), []string{path}, tree.ScanOptions{})
			require.NoError(b, err)
			_, err = c.Put(b.Context(), src, PutOptions{Name: "world", Machine: "pc"})
			require.NoError(b, err)
			require.NoError(b, src.Close())
		}
	})
	for _, stored := range []bool{false, true} {
		name := "bare"
		if stored {
			name = "bare, stored"
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(benchBytes)
			for b.Loop() {
				b.StopTimer()
				bare(b, newHost(b, versions.Config{}, nil), path, stored)
			}
		})
	}
}

// bare streams a file as a blob. The timer runs meanwhile, and goes on to run.
func bare(b *testing.B, h *host, path string, stored bool) {
	var store stream.Store
	if stored {
		store = disk.New(b.TempDir())
	}
	bytesOf := stream.NewBlob("bare")
	bytesOf.Handle(h.server.streams, func(in *stream.IncomingBlob) {
		in.SetStore(store)
		go func() { _, _ = io.Copy(io.Discard, in) }()
	})
	c := h.dial()
	f, err := os.Open(path)
	require.NoError(b, err)
	defer f.Close()
	b.StartTimer()
	require.NoError(b, bytesOf.Send(b.Context(), c.streams.Peer(c.conn), f, benchBytes, stream.Key("bare")))
	b.StopTimer()
	b.StartTimer()
}
