package main

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vmihailenco/msgpack/v5"
)

func generate(t *testing.T, size int64, seed uint64) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, generateWorld(&b, size, seed))
	return b.Bytes()
}

func TestWorldHasExactlyTheSize(t *testing.T) {
	for _, size := range []int64{0, 1, 15, 16, 17, 1000, 1 << 20, 1<<20 + 7} {
		require.Len(t, generate(t, size, 1), int(size))
	}
}

func TestWorldFollowsTheSeed(t *testing.T) {
	require.Equal(t, generate(t, 100_000, 5), generate(t, 100_000, 5))
	require.NotEqual(t, generate(t, 100_000, 5), generate(t, 100_000, 6))
}

func TestWorldHoldsRecords(t *testing.T) {
	b := generate(t, 1<<20, 1)
	require.Equal(t, worldMagic, string(b[:len(worldMagic)]))
	size := binary.LittleEndian.Uint64(b[len(worldMagic):])
	require.LessOrEqual(t, size, uint64(1<<20/recordShare))
	rest := bytes.NewReader(b[worldHeader : worldHeader+int(size)])
	records := msgpack.NewDecoder(rest)
	for id := uint64(1); rest.Len() > 0; id++ {
		var e entity
		require.NoError(t, records.Decode(&e))
		require.Equal(t, id, e.ID)
		require.Contains(t, kinds, e.Kind)
	}
}
