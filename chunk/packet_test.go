package chunk_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/chunk"
)

const protocolID = 0x11223344 // the reference's

func load(t testing.TB, name string, v any) {
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// parseBits reads a set as the vectors write it: character i is slice i.
func parseBits(s string) (b chunk.Bits) {
	for i, c := range s {
		if c == '1' {
			b.Set(i)
		}
	}
	return b
}

// reseal makes the checksum of a changed packet right.
func reseal(packet []byte, protocolID uint32) []byte {
	p := append(binary.LittleEndian.AppendUint32(nil, protocolID), packet...)
	copy(p[4:8], []byte{0, 0, 0, 0})
	binary.LittleEndian.PutUint32(packet, crc32.ChecksumIEEE(p))
	return packet
}

func TestSliceVectors(t *testing.T) {
	var file struct {
		Vectors []struct {
			Name       string
			ChunkID    uint16 `json:"chunk_id"`
			SliceID    int    `json:"slice_id"`
			NumSlices  int    `json:"num_slices"`
			ProtocolID uint32 `json:"protocol_id"`
			Data       string `json:"data_hex"`
			Packet     string `json:"packet_hex"`
		}
	}
	load(t, "slice_packets.json", &file)
	require.Len(t, file.Vectors, 27)
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			s := chunk.Slice{ChunkID: v.ChunkID, Index: v.SliceID, Count: v.NumSlices, Data: unhex(t, v.Data)}
			b := chunk.AppendSlice([]byte{0xee}, v.ProtocolID, s)
			require.Equal(t, "ee"+v.Packet, hex.EncodeToString(b))
			require.LessOrEqual(t, len(b)-1, len(s.Data)+chunk.Overhead)

			p, err := chunk.Parse(b[1:], v.ProtocolID)
			require.NoError(t, err)
			require.Equal(t, chunk.Packet{Kind: chunk.KindSlice, Slice: s}, p)
			_, err = chunk.Parse(b[1:], v.ProtocolID+1)
			require.ErrorIs(t, err, chunk.ErrMalformed)
		})
	}
}

func TestAckVectors(t *testing.T) {
	var file struct {
		Vectors []struct {
			Name       string
			ChunkID    uint16 `json:"chunk_id"`
			NumSlices  int    `json:"num_slices"`
			ProtocolID uint32 `json:"protocol_id"`
			Acked      string
			Packet     string `json:"packet_hex"`
		}
	}
	load(t, "ack_packets.json", &file)
	require.Len(t, file.Vectors, 25)
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			a := chunk.Ack{ChunkID: v.ChunkID, Count: v.NumSlices, Acked: parseBits(v.Acked)}
			b := chunk.AppendAck([]byte{0xee}, v.ProtocolID, a)
			require.Equal(t, "ee"+v.Packet, hex.EncodeToString(b))

			p, err := chunk.Parse(b[1:], v.ProtocolID)
			require.NoError(t, err)
			require.Equal(t, chunk.Packet{Kind: chunk.KindAck, Ack: a}, p)
			_, err = chunk.Parse(b[1:], v.ProtocolID+1)
			require.ErrorIs(t, err, chunk.ErrMalformed)
		})
	}
}

// TestReject reads what the reference's reader was given. We accept none of
// what it refuses, and not all that it accepts.
func TestReject(t *testing.T) {
	accepted := map[string]bool{
		"good_middle": true, "good_ack": true,
		"type_not_allowed": true, // a sound slice, given to a reader that wants no slices
	}
	var file struct {
		Vectors []struct {
			Name, How string
			Packet    string `json:"packet_hex"`
			Accepted  bool
		}
	}
	load(t, "read_reject.json", &file)
	require.Len(t, file.Vectors, 14)
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			_, err := chunk.Parse(unhex(t, v.Packet), protocolID)
			if accepted[v.Name] {
				require.NoError(t, err)
				return
			}
			t.Logf("%s; reference accepts: %v; %v", v.How, v.Accepted, err)
			require.ErrorIs(t, err, chunk.ErrMalformed)
		})
	}
	sound := unhex(t, file.Vectors[11].Packet)
	require.Equal(t, "type_not_allowed", file.Vectors[11].Name)
	require.ErrorIs(t, must(chunk.NewSender(chunk.Config{})).ReceiveAck(epoch, sound), chunk.ErrMalformed)
}

// TestEveryByteCounts damages sound packets, with the checksum wrong and with it right again.
func TestEveryByteCounts(t *testing.T) {
	var have chunk.Bits
	have.Set(0)
	have.Set(8)
	for name, packet := range map[string][]byte{
		"slice": chunk.AppendSlice(nil, protocolID, chunk.Slice{ChunkID: 3, Index: 1, Count: 2, Data: []byte("the end")}),
		"ack":   chunk.AppendAck(nil, protocolID, chunk.Ack{ChunkID: 3, Count: 9, Acked: have}),
	} {
		want, err := chunk.Parse(packet, protocolID)
		require.NoError(t, err)
		for n := range packet {
			_, err := chunk.Parse(packet[:n], protocolID)
			require.ErrorIs(t, err, chunk.ErrMalformed, "%s cut to %d bytes", name, n)
			if n >= 4 {
				_, err = chunk.Parse(reseal(append([]byte(nil), packet[:n]...), protocolID), protocolID)
				require.ErrorIs(t, err, chunk.ErrMalformed, "%s cut to %d bytes and sealed", name, n)
			}
		}
		_, err = chunk.Parse(reseal(append(append([]byte(nil), packet...), 0), protocolID), protocolID)
		require.ErrorIs(t, err, chunk.ErrMalformed, "%s and a byte", name)
		for bit := range len(packet) * 8 {
			p := append([]byte(nil), packet...)
			p[bit/8] ^= 1 << (bit % 8)
			_, err := chunk.Parse(p, protocolID)
			require.ErrorIs(t, err, chunk.ErrMalformed, "%s with bit %d flipped", name, bit)
			if bit < 32 {
				continue
			}
			if got, err := chunk.Parse(reseal(p, protocolID), protocolID); err == nil {
				require.NotEqual(t, want, got, "%s: bit %d means nothing", name, bit)
			}
		}
	}
}

func TestSliceSizes(t *testing.T) {
	for _, size := range []int{64, 1000, 1024, 1149, 1372, 32768} {
		c := chunk.Config{SliceSize: size, Rate: -1}
		data := content(size+1, 7)
		s := must(chunk.NewSender(c))
		_, err := s.Send(data)
		require.NoError(t, err)
		for i, want := range []int{size, 1} {
			b, ok := s.AppendSlice(epoch, nil)
			require.True(t, ok)
			require.LessOrEqual(t, len(b), want+chunk.Overhead)
			p, err := c.Parse(b)
			require.NoError(t, err)
			require.Equal(t, chunk.Slice{Index: i, Count: 2, Data: data[i*size : i*size+want]}, p.Slice)
			if i == 0 {
				_, err = chunk.Config{SliceSize: size * 2}.Parse(b)
				require.ErrorIs(t, err, chunk.ErrMalformed, "the other end expects another slice size")
			}
		}
	}
}

func TestImpossiblePacketsPanic(t *testing.T) {
	full := make([]byte, 1024)
	for name, s := range map[string]chunk.Slice{
		"no slices": {Data: full}, "too many": {Index: 1, Count: 257, Data: full}, "index": {Index: 2, Count: 2, Data: full},
		"negative": {Index: -1, Count: 2, Data: full}, "no data": {Count: 1}, "too long": {Count: 1, Data: make([]byte, 1025)},
		"short in the middle": {Count: 2, Data: full[1:]},
	} {
		require.Panics(t, func() { chunk.AppendSlice(nil, 1, s) }, name)
		r := must(chunk.NewReceiver(chunk.Config{}))
		require.False(t, r.Insert(epoch, s), name)
		require.EqualValues(t, 1, r.Stats().Malformed, name)
	}
	require.Panics(t, func() { chunk.AppendAck(nil, 1, chunk.Ack{}) })
	require.Panics(t, func() { chunk.AppendAck(nil, 1, chunk.Ack{Count: 257}) })
}

func TestBits(t *testing.T) {
	var b chunk.Bits
	for i := range chunk.MaxSlices {
		require.Equal(t, i, b.Count())
		require.False(t, b.Has(i))
		b.Set(i)
		b.Set(i)
		require.True(t, b.Has(i))
	}
	require.Panics(t, func() { b.Set(chunk.MaxSlices) })
	require.Panics(t, func() { b.Has(-1) })
}

func TestKindNames(t *testing.T) {
	require.Equal(t, "slice ack Kind(2)", chunk.KindSlice.String()+" "+chunk.KindAck.String()+" "+chunk.Kind(2).String())
}

// TestProtocolIDZero is the reference's id, in Config and in the functions.
func TestProtocolIDZero(t *testing.T) {
	s := chunk.Slice{Count: 1, Data: []byte("x")}
	p := chunk.AppendSlice(nil, 0, s)
	require.Equal(t, chunk.AppendSlice(nil, 0x11223344, s), p)
	require.Equal(t, chunk.Config{}.AppendSlice(nil, s), p)
	_, err := chunk.Parse(p, 0)
	require.NoError(t, err)
	require.NoError(t, must(chunk.NewReceiver(chunk.Config{})).ReceiveSlice(epoch, p))
	require.Equal(t, chunk.AppendAck(nil, 0x11223344, ackOf(0, 1, 0)), chunk.AppendAck(nil, 0, ackOf(0, 1, 0)))
}
