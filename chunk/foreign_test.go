package chunk_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
	"github.com/quivernet/quiver/internal/bits"
)

// foreignVector is a packet of the reference's last source file, which has 32
// slices a chunk where the article has 256.
type foreignVector struct {
	Name       string
	ChunkID    uint16 `json:"chunk_id"`
	SliceID    int32  `json:"slice_id"`
	NumSlices  int32  `json:"num_slices"`
	ProtocolID uint32 `json:"protocol_id"`
	Data       string `json:"data_hex"`
	Acked      string
	Packet     string `json:"packet_hex"`
}

// write writes the packet from its fields, as that source file does.
func (v foreignVector) write(t *testing.T, kind chunk.Kind) []byte {
	w := bits.NewWriter(nil)
	w.Uint32(0)
	w.Bits(uint32(kind), 1)
	w.Bits(uint32(v.ChunkID), 16)
	if kind == chunk.KindSlice {
		w.Int(v.SliceID, 0, 31)
		w.Int(v.NumSlices, 1, 32)
		data := unhex(t, v.Data)
		if v.SliceID == v.NumSlices-1 {
			w.Int(int32(len(data)), 1, 1024)
		}
		w.Raw(data)
	} else {
		w.Int(v.NumSlices, 1, 32)
		for _, bit := range v.Acked {
			w.Bits(uint32(bit-'0'), 1)
		}
	}
	w.Check("end of packet")
	b := w.Bytes()
	bits.Seal(b, v.ProtocolID)
	return b
}

// TestForeignSlices: a peer with 32 slices a chunk has the same protocol id and
// right checksums. Its packets are refused, but for an ack of nothing that
// happens to be the same bytes: none is taken for something else.
func TestForeignSlices(t *testing.T) {
	same := 0
	for file, kind := range map[string]chunk.Kind{"slice_packets_max32.json": chunk.KindSlice, "ack_packets_max32.json": chunk.KindAck} {
		var vectors struct{ Vectors []foreignVector }
		load(t, file, &vectors)
		require.NotEmpty(t, vectors.Vectors)
		for _, v := range vectors.Vectors {
			t.Run(v.Name, func(t *testing.T) {
				require.Equal(t, v.Packet, hex.EncodeToString(v.write(t, kind)), "the vector is what its fields say")
				if p, err := chunk.Parse(unhex(t, v.Packet), v.ProtocolID); err == nil {
					same++
					require.Equal(t, chunk.Packet{Kind: kind, Ack: chunk.Ack{ChunkID: v.ChunkID, Count: int(v.NumSlices), Acked: parseBits(v.Acked)}}, p)
				} else {
					require.ErrorIs(t, err, chunk.ErrMalformed)
				}
			})
		}
	}
	require.Equal(t, 1, same)
}
