package rpc

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
)

type vector struct{ X, Y, Z float32 }

// Validate is on the value.
func (v vector) Validate() error {
	if v.X > 1 {
		return errors.New("too long")
	}
	return nil
}

type named struct {
	ID   uint16
	Name string
}

// Validate is on the pointer.
func (n *named) Validate() error {
	if n.Name == "" {
		return errors.New("no name")
	}
	return nil
}

// packed writes itself.
type packed struct{ a, b uint32 }

func (p packed) AppendBinary(b []byte) ([]byte, error) {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, p.a), p.b), nil
}

func (p *packed) UnmarshalBinary(b []byte) error {
	if len(b) != 8 {
		return errors.New("packed takes 8 bytes")
	}
	p.a, p.b = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	return nil
}

type base struct {
	Kind  uint8
	Label string `msgpack:"label"`
}

type tree struct {
	Value int
	Kids  []tree
	Next  *tree
}

type everything struct {
	base
	Flag     bool
	I        int
	I8       int8
	I16      int16
	I32      int32
	I64      int64
	U        uint
	U8       uint8
	U16      uint16
	U32      uint32
	U64      uint64
	F32      float32
	F64      float64
	S        string
	Strings  []string
	Bytes    []byte
	Hash     [16]byte
	Grid     [3]int16
	Items    []named
	Optional *vector
	Table    map[string]int32
	Words    map[string]string
	ByPair   map[[2]int8]bool
	Tree     *tree
	At       time.Time
	For      time.Duration
	Addr     netip.Addr
	Empty    struct{}
	Local    func() `msgpack:"-"`
	hidden   int
}

func fullValue() everything {
	return everything{
		base: base{Kind: 3, Label: "three"}, Flag: true, I: -1 << 40, I8: -128, I16: 300, I32: -70000, I64: math.MinInt64,
		U: 1 << 40, U8: 255, U16: 65535, U32: 1 << 31, U64: math.MaxUint64, F32: 1.5, F64: math.Inf(-1), S: strings.Repeat("s", 300),
		Strings: []string{"", "a"}, Bytes: []byte{1, 2}, Hash: [16]byte{15: 9}, Grid: [3]int16{-1, 0, 1},
		Items: []named{{ID: 1, Name: "one"}, {}}, Optional: &vector{X: 1}, Table: map[string]int32{"k": -5},
		Words: map[string]string{"a": "b"}, ByPair: map[[2]int8]bool{{1, -1}: true},
		Tree: &tree{Value: 1, Kids: []tree{{Value: 2}, {Kids: []tree{}}}, Next: &tree{}},
		At:   time.Unix(1<<35, 7), For: time.Hour, Addr: netip.MustParseAddr("::1"),
	}
}

func encode(t testing.TB, v any) []byte {
	b, err := AppendValue(nil, v)
	require.NoError(t, err)
	return b
}

func TestValueRoundTrip(t *testing.T) {
	full := fullValue()
	seven, moment := 7, time.Unix(5, 6).UTC()
	raw := Raw("bytes as they are")
	for _, v := range []any{
		&everything{}, &full, &vector{1, 2, 3}, &named{}, &packed{1, 2}, &seven, &raw, &moment, &None{}, new(string),
		&[]string{"a", "b"}, &[]vector{{1, 2, 3}}, &map[string]bool{"x": true}, &[3]string{"a"}, &[]byte{1}, new(time.Duration),
	} {
		b := encode(t, v)
		got := reflect.New(reflect.TypeOf(v).Elem())
		rest, err := DecodeValue(append(b, "rest"...), got.Interface())
		require.NoError(t, err, "%T", v)
		require.Equal(t, "rest", string(rest), "%T", v)
		if e, ok := got.Interface().(*everything); ok {
			require.True(t, full.At.Equal(e.At) || e.At.IsZero())
			e.At = v.(*everything).At
		}
		require.Equal(t, v, got.Interface())

		byValue := encode(t, reflect.ValueOf(v).Elem().Interface())
		require.Equal(t, len(b), len(byValue), "%T", v)
	}
}

// What the library writes is accepted, and read as the library reads it.
func TestRandomValuesRoundTrip(t *testing.T) {
	type random struct {
		A []map[uint8][]string
		B map[string]*struct{ X, Y int64 }
		C [2][]float64
		D []uint64
		E []struct {
			F int8
			G *[]byte
		}
	}
	r := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	for range 200 {
		v, ok := quick.Value(reflect.TypeFor[random](), randSource(r))
		require.True(t, ok)
		want := v.Interface().(random)
		var got, library random
		b := encode(t, &want)
		rest, err := DecodeValue(b, &got)
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, want, got)
		require.NoError(t, msgpack.Unmarshal(b, &library))
		require.Equal(t, library, got)
	}
}

func TestPayloadIsTakenWhole(t *testing.T) {
	c, err := codecOf(reflect.TypeFor[vector]())
	require.NoError(t, err)
	b := encode(t, vector{1, 2, 3})
	var v vector
	require.NoError(t, c.decode(b, &v))
	require.ErrorContains(t, c.decode(append(b, 0), &v), "1 bytes are left over")
	for i := range b {
		require.Error(t, c.decode(b[:i], &v), "cut to %d bytes", i)
	}
	none, err := codecOf(reflect.TypeFor[None]())
	require.NoError(t, err)
	require.NoError(t, none.decode(nil, &None{}))
	require.Error(t, none.decode([]byte{0xc0}, &None{}))
}

func TestValidateByValueAndByPointer(t *testing.T) {
	v, err := codecOf(reflect.TypeFor[vector]())
	require.NoError(t, err)
	require.NoError(t, v.validate(&vector{X: 1}))
	require.ErrorContains(t, v.validate(&vector{X: 2}), "too long")
	n, err := codecOf(reflect.TypeFor[named]())
	require.NoError(t, err)
	require.ErrorContains(t, n.validate(&named{}), "no name")
	i, err := codecOf(reflect.TypeFor[int]())
	require.NoError(t, err)
	require.NoError(t, i.validate(new(int)))
}

func TestValueErrors(t *testing.T) {
	keep := []byte("keep")
	b, err := AppendValue(keep, make(chan int))
	require.ErrorContains(t, err, "a chan can not be encoded")
	require.Equal(t, keep, b)
	for _, v := range []any{nil, (*int)(nil)} {
		_, err = AppendValue(nil, v)
		require.Error(t, err)
	}
	for _, v := range []any{nil, 5, (*int)(nil)} {
		_, err = DecodeValue([]byte{1}, v)
		require.ErrorContains(t, err, "must be a pointer to a value")
	}
	var raw Raw
	for _, b := range [][]byte{nil, {2, 1}, {0xff}, bytes.Repeat([]byte{0xff}, 9)} {
		_, err = DecodeValue(b, &raw)
		require.ErrorContains(t, err, "does not fit the")
	}
	_, err = DecodeValue([]byte{3, 1, 2, 3}, &packed{})
	require.ErrorContains(t, err, "packed takes 8 bytes")
}

// Decoding starts from nothing, so that what an earlier value left does not shine through.
func TestDecodeValueForgetsWhatWasThere(t *testing.T) {
	v := tree{Value: 9, Kids: []tree{{Value: 1}}, Next: &tree{}}
	_, err := DecodeValue(encode(t, tree{Value: 1}), &v)
	require.NoError(t, err)
	require.Equal(t, tree{Value: 1}, v)
}

func TestGiantsAreNotPooled(t *testing.T) {
	e := &encoder{buf: make([]byte, 0, 4*maxPooledBytes)}
	e.release()
	for range 100 {
		got := getEncoder()
		require.LessOrEqual(t, cap(got.buf), 2*maxPooledBytes)
		defer got.release()
	}
}

func BenchmarkEncode(b *testing.B) {
	m := Server[vector](NewClass("C"), "M", Reliable).m
	v := vector{1, 2, 3}
	b.ReportAllocs()
	for b.Loop() {
		e := getEncoder()
		if err := e.call(m, &v); err != nil {
			b.Fatal(err)
		}
		e.release()
	}
}

func BenchmarkAppendValue(b *testing.B) {
	v := named{ID: 7, Name: "an item of some kind"}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = AppendValue(buf[:0], &v)
	}
}

func BenchmarkDecodeValue(b *testing.B) {
	v := named{ID: 7, Name: "an item of some kind"}
	buf := encode(b, &v)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeValue(buf, &v); err != nil {
			b.Fatal(err)
		}
	}
}
