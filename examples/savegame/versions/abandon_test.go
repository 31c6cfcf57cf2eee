package versions

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/store/storetest"
	"github.com/quivernet/quiver/stream/cdc"
)

// What a manifest announced and nobody sent was remembered for an hour, and 64
// MiB of it took 350 MB.
func TestAbandonedPutIsForgotten(t *testing.T) {
	p := newPlace(t, Config{Quota: 1 << 20})
	u := p.user("alice")
	shared := noise(1, 5000)
	p.put(u, Request{Name: "world"}, saveOf(shared))
	begin := func(s save) *Put {
		put, err := u.Begin(t.Context(), Request{Name: "other", Machine: machine, Content: s.digest()})
		require.NoError(t, err)
		_, _ = put.Lacks(t.Context(), s.bytes)
		return put
	}
	full := begin(saveOf(noise(2, 60_000), noise(3, 60_000)+"and so on", noise(4, cdc.MaxChunk)[:100_000], noise(5, 200_000), noise(6, 250_000), noise(7, 250_000), noise(8, 250_000)))
	full.Abandon()
	require.Len(t, u.objects, 2, "a put that is refused")

	running := begin(saveOf(shared, noise(9, 5000)))
	begin(saveOf(shared, noise(9, 5000), noise(10, 5000))).Abandon()
	require.Len(t, u.objects, 4, "what another one needs stays")
	require.NoError(t, chunk(t.Context(), running, 1, cdc.Pack(nil, []byte(noise(9, 5000)))))
	_, _, err := running.Commit(t.Context())
	require.NoError(t, err)
	running.Abandon()
	require.Len(t, u.objects, 4)
	require.Len(t, u.contents, 2)
	require.Empty(t, p.requireSound())
}

// What a put had stored until the disk was full filled the disk for a day, and
// nobody else could put anything.
func TestFullDiskIsNotKeptFull(t *testing.T) {
	p := newPlace(t, Config{})
	small := &storetest.Small{Store: p.store, Space: 500_000}
	p.store = small
	p.open(Config{Reserve: -1})
	u := p.user("alice")
	p.put(u, Request{Name: "world"}, saveOf(noise(1, 50_000)))
	large := saveOf(noise(1, 50_000), noise(2, 100_000), noise(3, 100_000), noise(4, 100_000))
	begun := begin2(t, u, large)
	_, err := begun.Lacks(t.Context(), large.bytes)
	require.NoError(t, err)
	require.NoError(t, chunk(t.Context(), begun, 1, cdc.Pack(nil, large.data[1])))
	small.Space = 200_000
	require.ErrorAs(t, chunk(t.Context(), begun, 2, cdc.Pack(nil, large.data[2])), new(*Full))
	begun.Abandon()
	require.Empty(t, p.requireSound())
	p.put(u, Request{Name: "small"}, saveOf(noise(5, 50_000)))
	require.Empty(t, p.requireSound())
}
