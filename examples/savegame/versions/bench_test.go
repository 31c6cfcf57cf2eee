package versions

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/stream/cdc"
)

// BenchmarkPut puts 64 MiB that do not compress into a folder, as packed chunks
// that are there already.
func BenchmarkPut(b *testing.B) {
	const chunks, size = 512, 128 << 10
	folder, err := store.Open(b.TempDir())
	require.NoError(b, err)
	defer func() { require.NoError(b, folder.Close()) }()
	all, err := Open(b.Context(), folder, Config{Reserve: -1})
	require.NoError(b, err)
	text := []byte(noise(1, chunks*size))
	var data []string
	for i := range chunks {
		data = append(data, string(text[i*size:(i+1)*size]))
	}
	s := saveOf(data...)
	var packed [][]byte
	for _, d := range s.data {
		packed = append(packed, cdc.Pack(nil, d))
	}
	b.SetBytes(chunks * size)
	for i := 0; b.Loop(); i++ {
		u, err := all.User(b.Context(), fmt.Sprint("user ", i))
		require.NoError(b, err)
		p, err := u.Begin(b.Context(), Request{Name: "world", Machine: "m", Content: s.digest()})
		require.NoError(b, err)
		lacks, err := p.Lacks(b.Context(), s.bytes)
		require.NoError(b, err)
		var storing errgroup.Group
		storing.SetLimit(32)
		for _, i := range lacks {
			storing.Go(func() error { return chunk(b.Context(), p, i, packed[i]) })
		}
		require.NoError(b, storing.Wait())
		_, _, err = p.Commit(b.Context())
		require.NoError(b, err)
		p.Abandon()
	}
}
