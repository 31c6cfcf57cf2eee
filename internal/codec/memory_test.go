package codec

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// airy takes much memory for the bytes of an empty one's encoding.
type airy []map[uint8][8]uint64

func airies(n int) *airy {
	a := make(airy, n)
	for i := range a {
		a[i] = map[uint8][8]uint64{}
	}
	return &a
}

// A receiver bounds the memory of a value, so its sender must: no call may close a connection.
func TestSendersCheckMemory(t *testing.T) {
	_, err := put(airies(100))
	require.NoError(t, err)
	_, err = put(airies(200))
	require.ErrorContains(t, err, "value would need more than 64 KiB plus 64 times its size in memory")
}

// What follows a value in a row does not make it a larger one.
func TestMemoryOfAValueIsBoundedByItsOwnBytes(t *testing.T) {
	b := append([]byte{0xdc, 0, 200}, bytes.Repeat([]byte{0x80}, 200)...)
	_, _, err := take(b, new(airy))
	require.ErrorContains(t, err, "more than 64 KiB plus 64 times its size")
	_, _, err = take(append(b, make([]byte, 60<<10)...), new(airy))
	require.ErrorContains(t, err, "more than 64 KiB plus 64 times its size")
}

// The memory that decoding takes is reported, so that a caller that keeps
// values can charge for them.
func TestNextTellsMemory(t *testing.T) {
	full := make(map[int8]int16)
	for k := range int8(112) { // as many as 128 slots take
		full[k] = 0
	}
	text, pointer := int(reflect.TypeFor[string]().Size()), int(reflect.TypeFor[*vector]().Size())
	for _, test := range []struct {
		value any
		want  int
	}{
		{new(int), 0}, {&[3]bool{}, 0}, {new([]string), 0}, {&[]string{"", "abc"}, 2*text + 3}, {&[]uint64{1, 2}, 16},
		{&[]*vector{nil, {}}, 2*pointer + 12}, {&map[int8]int16{1: 1}, 48 + 8*5}, {&full, 48 + 64 + 128*5}, {&Raw{1, 2, 3}, 3}, {&packed{}, 8}, {&None{}, 0},
	} {
		_, memory, err := take(encode(t, test.value), reflect.New(reflect.TypeOf(test.value).Elem()).Interface())
		require.NoError(t, err)
		require.Equal(t, test.want, memory, "%v", test.value)
	}
}

func TestTypesThatMayTakeTooMuchMemoryAreChecked(t *testing.T) {
	type wide [9000]byte
	type either struct { // as little as the pointer may be nil
		A *[100]uint64
		B [370]map[int]bool
	}
	for typ, want := range map[reflect.Type]bool{
		reflect.TypeFor[airy](): true, reflect.TypeFor[map[uint8]airy](): true, reflect.TypeFor[[]*[200]uint64](): false,
		reflect.TypeFor[[][]uint64](): false, reflect.TypeFor[[]thick](): true, reflect.TypeFor[[3]map[int]int](): false,
		reflect.TypeFor[map[uint8]wide](): true, reflect.TypeFor[map[int]int](): false, reflect.TypeFor[[]map[int8]int8](): true,
		reflect.TypeFor[[1 << 20]map[int]bool](): true, reflect.TypeFor[[1 << 25][1 << 3]map[int]bool](): true, reflect.TypeFor[[1 << 30]struct{}](): false, reflect.TypeFor[struct{ A []map[int]int64 }](): true,
		reflect.TypeFor[map[uint8]hollow](): true, reflect.TypeFor[either](): true,
	} {
		c, err := Of(typ)
		require.NoError(t, err)
		require.Equal(t, want, c.Refuses(), "%v", typ)
	}
}

func TestLeastSize(t *testing.T) {
	for typ, want := range map[reflect.Type]int{
		reflect.TypeFor[None](): 0, reflect.TypeFor[Raw](): 1, reflect.TypeFor[packed](): 1, reflect.TypeFor[int](): 1,
		reflect.TypeFor[sizedVector](): 16, reflect.TypeFor[[3]float64](): 28, reflect.TypeFor[string](): 1,
		reflect.TypeFor[struct {
			A [4]byte
			B *sizedVector
			C map[string]int
		}](): 1 + 6 + 1 + 1, reflect.TypeFor[[20]bool](): 23, reflect.TypeFor[ring](): 2, reflect.TypeFor[[]sizedVector](): 1,
	} {
		c, err := Of(typ)
		require.NoError(t, err)
		require.Equal(t, want, c.Size().Least, "%v", typ)
	}
}

// hollow takes some memory, and few bytes.
type hollow [32]uint64

func (hollow) MarshalBinary() ([]byte, error) { return nil, nil }
func (*hollow) UnmarshalBinary([]byte) error  { return nil }

// block takes much memory, and few bytes.
type block [1 << 20]uint64

func (block) MarshalBinary() ([]byte, error) { return nil, nil }
func (*block) UnmarshalBinary([]byte) error  { return nil }

// Sums of memory do not stop at some size, because then the rest of a large
// value would be beyond all bounds.
func TestMemoryOfLargeValuesIsBounded(t *testing.T) {
	const n = 34 << 20 // for which more is allowed than an int32 holds
	b := binary.BigEndian.AppendUint32([]byte{msgpcode.Array32}, n)
	b = append(b, bytes.Repeat([]byte{msgpcode.Nil}, n)...)
	s, err := schemaOf(reflect.TypeFor[[]block]())
	require.NoError(t, err)
	_, _, err = measure(s, b)
	require.ErrorIs(t, err, errMemory)
}
