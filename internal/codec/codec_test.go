package codec

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
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
		base: base{Kind: 3, Label: "three"}, Flag: true, I: -1 << 30, I8: -128, I16: 300, I32: -70000, I64: math.MinInt64,
		U: 1 << 31, U8: 255, U16: 65535, U32: 1 << 31, U64: math.MaxUint64, F32: 1.5, F64: math.Inf(-1), S: strings.Repeat("s", 300),
		Strings: []string{"", "a"}, Bytes: []byte{1, 2}, Hash: [16]byte{15: 9}, Grid: [3]int16{-1, 0, 1},
		Items: []named{{ID: 1, Name: "one"}, {}}, Optional: &vector{X: 1}, Table: map[string]int32{"k": -5},
		Words: map[string]string{"a": "b"}, ByPair: map[[2]int8]bool{{1, -1}: true},
		Tree: &tree{Value: 1, Kids: []tree{{Value: 2}, {Kids: []tree{}}}, Next: &tree{}},
		At:   time.Unix(1<<35, 7), For: time.Hour, Addr: netip.MustParseAddr("::1"),
	}
}

// put encodes v, or what it points to.
func put(v any) ([]byte, error) {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer {
		p = reflect.New(reflect.TypeOf(v))
		p.Elem().Set(reflect.ValueOf(v))
	}
	c, err := Of(p.Type().Elem())
	if err != nil {
		return nil, err
	}
	return c.Append(nil, p.Interface())
}

// take decodes the value at the start of b into the zero value at p.
func take(b []byte, p any) (rest []byte, memory int, err error) {
	c, err := Of(reflect.TypeOf(p).Elem())
	if err != nil {
		return nil, 0, err
	}
	return c.Next(b, p)
}

func encode(t testing.TB, v any) []byte {
	b, err := put(v)
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
		rest, _, err := take(append(b, "rest"...), got.Interface())
		require.NoError(t, err, "%T", v)
		require.Equal(t, "rest", string(rest), "%T", v)
		if e, ok := got.Interface().(*everything); ok {
			require.True(t, full.At.Equal(e.At) || e.At.IsZero())
			e.At = v.(*everything).At
		}
		require.Equal(t, v, got.Interface())
	}
}

// Values at the edge of what msgpack writes: bytes of a type of their own, and
// types that write nothing of themselves.
func TestOddValuesRoundTrip(t *testing.T) {
	for _, v := range []any{
		&[4]octet{1, 2}, &[]octet{1, 2}, &[][2]octet{{1, 2}}, &map[string]*[2]octet{"a": {1}}, &map[string][]octet{"a": {1}},
		&[]quiet{"", "not"}, &struct{ F hook }{}, &struct{ M flags }{}, &struct{ M flags }{flags{}}, &map[string]*big.Int{"a": big.NewInt(5)},
		&[0]int{}, &[0]byte{}, &[3]struct{}{}, &[]struct{}{{}, {}}, &map[struct{}]struct{}{{}: {}}, &map[[2]byte][3]byte{{1}: {2}},
	} {
		got := reflect.New(reflect.TypeOf(v).Elem())
		rest, _, err := take(encode(t, v), got.Interface())
		require.NoError(t, err, "%T", v)
		require.Empty(t, rest)
		require.Equal(t, v, got.Interface())
	}
}

// quiet writes no bytes when it is empty.
type quiet string

func (q quiet) MarshalText() ([]byte, error) {
	if q == "" {
		return nil, nil
	}
	return []byte(q), nil
}

func (q *quiet) UnmarshalText(b []byte) error {
	*q = quiet(b)
	return nil
}

// hook and flags can be nil, and write themselves.
type (
	hook  func()
	flags map[string]bool
)

func (hook) MarshalText() ([]byte, error)    { return []byte("hook"), nil }
func (*hook) UnmarshalText([]byte) error     { return errors.New("it was nil") }
func (flags) MarshalBinary() ([]byte, error) { return []byte{}, nil }
func (f *flags) UnmarshalBinary([]byte) error {
	*f = flags{}
	return nil
}

// A type may nest deeper than its receiver goes without being recursive: its sender says so.
func TestDeepTypesAreChecked(t *testing.T) {
	typ := reflect.TypeFor[int]()
	for range maxDepth {
		typ = reflect.ArrayOf(1, typ)
	}
	b := encode(t, reflect.New(typ).Interface())
	_, _, err := take(b, reflect.New(typ).Interface())
	require.NoError(t, err)
	_, err = put(reflect.New(reflect.ArrayOf(1, typ)).Interface())
	require.ErrorIs(t, err, errDepth)
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
		rest, _, err := take(b, &got)
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, want, got)
		require.NoError(t, msgpack.Unmarshal(b, &library))
		require.Equal(t, library, got)
	}
}

func TestPayloadIsTakenWhole(t *testing.T) {
	c, err := Of(reflect.TypeFor[vector]())
	require.NoError(t, err)
	b := encode(t, vector{1, 2, 3})
	var v vector
	require.NoError(t, c.Decode(b, &v))
	require.ErrorContains(t, c.Decode(append(b, 0), &v), "value has 1 byte left over")
	for i := range b {
		require.Error(t, c.Decode(b[:i], &v), "cut to %d bytes", i)
	}
	none, err := Of(reflect.TypeFor[None]())
	require.NoError(t, err)
	require.NoError(t, none.Decode(nil, &None{}))
	require.Error(t, none.Decode([]byte{0xc0}, &None{}))
}

func TestValidateByValueAndByPointer(t *testing.T) {
	v, err := Of(reflect.TypeFor[vector]())
	require.NoError(t, err)
	require.NoError(t, v.Validate(&vector{X: 1}))
	require.ErrorContains(t, v.Validate(&vector{X: 2}), "too long")
	n, err := Of(reflect.TypeFor[named]())
	require.NoError(t, err)
	require.ErrorContains(t, n.Validate(&named{}), "no name")
	i, err := Of(reflect.TypeFor[int]())
	require.NoError(t, err)
	require.NoError(t, i.Validate(new(int)))
}

func TestAppendErrors(t *testing.T) {
	c, err := Of(reflect.TypeFor[string]())
	require.NoError(t, err)
	broken, keep := "\xff", []byte("keep")
	b, err := c.Append(keep, &broken)
	require.ErrorContains(t, err, "not valid UTF-8")
	require.Equal(t, keep, b)
	for _, b := range [][]byte{nil, {2, 1}, {0xff}, bytes.Repeat([]byte{0xff}, 9)} {
		_, _, err = take(b, new(Raw))
		require.ErrorContains(t, err, "message is truncated")
	}
	_, _, err = take([]byte{3, 1, 2, 3}, &packed{})
	require.ErrorContains(t, err, "packed takes 8 bytes")
}

func TestGiantsAreNotPooled(t *testing.T) {
	e := &Encoder{Buf: make([]byte, 0, maxPooledBytes+1)}
	e.Release()
	for range 100 {
		got := NewEncoder()
		require.LessOrEqual(t, cap(got.Buf), maxPooledBytes)
		defer got.Release()
	}
}

// Inside of another value some types are encoded in another form than by themselves.
func TestInside(t *testing.T) {
	raw, at, p := Raw("abc"), time.Unix(5, 0), &vector{X: 1}
	for _, v := range []any{&raw, &at, &p, &vector{Y: 1}, new(string)} {
		typ := reflect.TypeOf(v).Elem()
		c, err := Inside(typ)
		require.NoError(t, err)
		row := reflect.MakeSlice(reflect.SliceOf(typ), 2, 2)
		row.Index(1).Set(reflect.ValueOf(v).Elem())
		without, with := encode(t, row.Slice(0, 1).Interface()), encode(t, row.Interface())
		b, err := c.Append(nil, v)
		require.NoError(t, err)
		require.Len(t, b, len(with)-len(without), "%v", typ)
		if size := c.Size(); size.Unbounded == nil {
			require.LessOrEqual(t, len(b), size.Most)
		}
	}
	_, err := Inside(reflect.TypeFor[packed]())
	require.ErrorContains(t, err, "inside another value it also needs MarshalBinary")
}
