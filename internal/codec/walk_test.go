package codec

import (
	"bytes"
	"encoding/hex"
	oldrand "math/rand"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// randSource lets testing/quick draw from r.
func randSource(r *rand.Rand) *oldrand.Rand { return oldrand.New(oldrand.NewSource(r.Int64())) }

func sizeOf[T any](t testing.TB, payload []byte) (int, error) {
	s, err := schemaOf(reflect.TypeFor[T]())
	require.NoError(t, err)
	n, _, err := measure(s, payload)
	return n, err
}

type wide struct{ A [100]uint64 }

func TestWalkRefuses(t *testing.T) {
	for _, test := range []struct {
		name    string
		measure func(testing.TB, []byte) (int, error)
		hex     string
		want    string
	}{
		{"empty", sizeOf[int], "", "value is truncated"},
		{"slice of 2^32-1", sizeOf[[]vector], "ddffffffff", "length is 4294967295 but only 0 bytes are left"},
		{"map of 2^32-1", sizeOf[map[string]int], "dfffffffff00", "length is 4294967295 but only 1 byte is left"},
		{"strings of 2^32-1", sizeOf[[]string], "ddffffffffa0", "length is"},
		{"string of 2^32-1", sizeOf[string], "dbffffffff", "length is"},
		{"bytes of 2^32-1", sizeOf[[]byte], "c6ffffffff", "length is"},
		{"cut header", sizeOf[[]byte], "c6ffff", "value is truncated"},
		{"cut string", sizeOf[string], "a5616263", "length is 5 but only 3 bytes are left"},
		{"nil for a struct", sizeOf[vector], "c0", "code 0xc0 where an array is expected"},
		{"nil for a struct in a slice", sizeOf[[]wide], "91c0", "element 0: has code 0xc0"},
		{"nil for a time", sizeOf[struct{ At time.Time }], "91c0", "At: has code 0xc0 where a time"},
		{"nil for a number", sizeOf[int], "c0", "where an integer is expected"},
		{"nil for a string", sizeOf[string], "c0", "where a string is expected"},
		{"map for a struct", sizeOf[vector], "80", "where an array is expected"},
		{"too few fields", sizeOf[vector], "92ca00000000ca00000000", "2 elements instead of 3"},
		{"too many fields", sizeOf[struct{ A int }], "920101", "2 elements instead of 1"},
		{"wrong array length", sizeOf[[2]int], "9101", "1 element instead of 2"},
		{"wrong byte array length", sizeOf[[2]byte], "c40101", "1 byte instead of 2"},
		{"300 in a uint8", sizeOf[uint8], "cd012c", "300 overflows uint8"},
		{"-1 in a uint64", sizeOf[uint64], "ff", "-1 overflows uint64"},
		{"128 in an int8", sizeOf[int8], "cc80", "128 overflows int8"},
		{"-129 in an int8", sizeOf[int8], "d1ff7f", "-129 overflows int8"},
		{"2^63 in an int64", sizeOf[int64], "cf8000000000000000", "9223372036854775808 overflows int64"},
		{"float for an int", sizeOf[int], "ca00000000", "where an integer is expected"},
		{"int for a float", sizeOf[float32], "01", "where float32 is expected"},
		{"float32 for a float64", sizeOf[float64], "ca00000000", "where float64 is expected"},
		{"cut number", sizeOf[int], "d30000", "value is truncated"},
		{"cut float", sizeOf[float64], "cb0000", "value is truncated"},
		{"int for a bool", sizeOf[bool], "01", "where a bool is expected"},
		{"time of another extension", sizeOf[struct{ At time.Time }], "91d60500000000", "not a time"},
		{"time of 5 bytes", sizeOf[struct{ At time.Time }], "91c705ff0000000000", "At: value"},
		{"cut time", sizeOf[struct{ At time.Time }], "91d6ff00", "value is truncated"},
		{"unused code", sizeOf[int], "c1", "code 0xc1"},
		{"string key of another kind", sizeOf[map[string]int], "810101", "where a string is expected"},
		{"time of 11 bytes", sizeOf[struct{ At time.Time }], "91c70bff000000000000000000000000", "not a time"},
		{"number for a list", sizeOf[[]int], "0000", "code 0x00 where an array is expected"},
		{"number in a struct with a bound", sizeOf[heavy], "9201a0", "A: has code 0x01"},
		{"field in field", sizeOf[[]named], "91920100", "element 0: Name: has code 0x00"},
	} {
		payload, err := hex.DecodeString(test.hex)
		require.NoError(t, err)
		_, err = test.measure(t, payload)
		require.ErrorContains(t, err, test.want, test.name)
	}
}

func TestWalkTakesNumbersOfEveryWidth(t *testing.T) {
	for _, test := range []struct{ hex string }{
		{"00"}, {"7f"}, {"ff"}, {"e0"}, {"cc7f"}, {"d080"}, {"cd007f"}, {"d1ff80"}, {"ce0000007f"}, {"d2ffffff80"},
		{"cf000000000000007f"}, {"d3ffffffffffffff80"},
	} {
		payload, err := hex.DecodeString(test.hex)
		require.NoError(t, err)
		n, err := sizeOf[int8](t, payload)
		require.NoError(t, err, test.hex)
		require.Len(t, payload, n)
	}
	payload, _ := hex.DecodeString("cfffffffffffffffff")
	_, err := sizeOf[uint64](t, payload)
	require.NoError(t, err)
}

func TestWalkBoundsDepth(t *testing.T) {
	nest := func(n int) []byte { // tree{0, [tree{0, [...], nil}], nil}
		return append(append(bytes.Repeat([]byte{0x93, 0x00, 0x91}, n), 0x93, 0x00, 0x90, 0xc0), bytes.Repeat([]byte{0xc0}, n)...)
	}
	_, err := sizeOf[tree](t, nest(30))
	require.NoError(t, err)
	_, err = sizeOf[tree](t, nest(10_000))
	require.ErrorContains(t, err, "nested deeper than 64")
}

// thick takes 4 KiB in memory and 2 bytes on the wire.
type thick [4096]uint64

func (t *thick) MarshalBinary() ([]byte, error) { return nil, nil }
func (t *thick) UnmarshalBinary([]byte) error   { return nil }

func TestWalkBoundsMemory(t *testing.T) {
	payload := append([]byte{0xdc, 0x40, 0x00}, bytes.Repeat([]byte{0xc4, 0x00}, 0x4000)...)
	_, err := sizeOf[[]thick](t, payload)
	require.ErrorContains(t, err, "more than 64 KiB plus 64 times its size in memory")

	maps := append([]byte{0xdc, 0x20, 0x00}, bytes.Repeat([]byte{0x81, 0x00, 0x94, 0xc0, 0xc0, 0xc0, 0xc0}, 0x2000)...)
	_, err = sizeOf[[]map[int8][4][]int](t, maps) // each has room for eight entries
	require.ErrorContains(t, err, "more than 64 KiB plus 64 times its size in memory")

	nils := append([]byte{0xdc, 0xff, 0xff}, bytes.Repeat([]byte{0xc0}, 0xffff)...)
	_, err = sizeOf[[][]byte](t, nils)
	require.NoError(t, err, "24 bytes for each nil are within the limit")
}

// What the walk lets through must neither panic nor allocate more than it
// allows, and encodes again.
func FuzzDecode(f *testing.F) {
	full := fullValue()
	f.Add(encode(f, &full))
	f.Add(encode(f, &everything{}))
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte(strings.Repeat("\x93\x00\x91", 70)))
	codec, err := Of(reflect.TypeFor[everything]())
	require.NoError(f, err)
	trees, err := Of(reflect.TypeFor[[]tree]())
	require.NoError(f, err)
	bounds, err := Of(reflect.TypeFor[limited]())
	require.NoError(f, err)
	for _, test := range beyond {
		if l, ok := test.good.(*limited); ok {
			f.Add(encode(f, l))
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var v everything
		first := codec.Decode(payload, &v)
		var kids []tree
		second := trees.Decode(payload, &kids)
		var l limited
		third := bounds.Decode(payload, &l)
		runtime.ReadMemStats(&after)
		limit := uint64(3 * (memoryFree + memoryRatio*len(payload)))
		require.Less(t, after.TotalAlloc-before.TotalAlloc, limit+1<<20, "the last MiB is the fuzzer's own")
		if first == nil {
			again(t, codec, &v, new(everything))
		}
		if second == nil {
			again(t, trees, &kids, new([]tree))
		}
		if third == nil {
			requireWithin(t, &l)
			again(t, bounds, &l, new(limited))
		}
	})
}

// requireWithin looks at the value itself, where the walk looked at its bytes.
func requireWithin(t *testing.T, l *limited) {
	require.LessOrEqual(t, len(l.Text), 4)
	require.LessOrEqual(t, len(l.Bytes), 4)
	require.LessOrEqual(t, len(l.List), 2)
	require.LessOrEqual(t, len(l.Few), 1)
	require.LessOrEqual(t, len(l.Tight.s), 2)
	require.LessOrEqual(t, len(l.Table), 2)
	texts := []string{l.Text, l.Heavy.A, l.Heavy.B}
	for k, v := range l.Table {
		require.LessOrEqual(t, len(k), 3)
		require.LessOrEqual(t, len(v), 4)
		texts = append(texts, k, v)
	}
	for _, list := range l.Lists {
		require.LessOrEqual(t, len(list), 3)
		for _, s := range list {
			if s != nil {
				require.LessOrEqual(t, len(*s), 2)
				texts = append(texts, *s)
			}
		}
	}
	for k := range l.Scales {
		require.Equal(t, k, k, "not NaN")
	}
	for _, text := range texts {
		require.True(t, utf8.ValidString(text), "%q", text)
	}
}

// again encodes a value that was decoded, and decodes it once more.
func again(t *testing.T, c *Codec, v, into any) {
	b, err := put(v)
	require.NoError(t, err)
	require.NoError(t, c.Decode(b, into))
}

func BenchmarkMeasure(b *testing.B) {
	full := fullValue()
	payload := encode(b, &full)
	s, err := schemaOf(reflect.TypeFor[everything]())
	require.NoError(b, err)
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if _, _, err := measure(s, payload); err != nil {
			b.Fatal(err)
		}
	}
}
