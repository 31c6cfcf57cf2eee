package state_test

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/state"
)

// TestRefusedBytes holds what no Append writes, and what Read and Skip say about it.
func TestRefusedBytes(t *testing.T) {
	type pair struct {
		A bool
		B uint16
	}
	for _, c := range []struct {
		value any
		tag   string
		wire  string
		text  string
	}{
		{true, "", "", "field needs 1 byte; the message has only 0 left"},
		{true, "", "\x02", "bool is 2 instead of 0 or 1"},
		{uint8(0), "", "", "field needs 1 byte; the message has only 0 left"},
		{uint16(0), "", "", "varint is truncated or overflows 64 bits"},
		{uint16(0), "", "\x80", "varint is truncated or overflows 64 bits"},
		{uint64(0), "", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "varint is truncated or overflows 64 bits"},
		{uint16(0), "", "\x80\x00", "varint is longer than necessary"},
		{uint16(0), "", "\x80\x80\x04", "65536 overflows uint16"},
		{int16(0), "", "\x81\x80\x04", "-32769 overflows int16"},
		{Ref(0), "", "\x81\x00", "varint is longer than necessary"},
		{0, "range=0:100", "\x65", "value is 101 above the low end of its range; the limit is 100"},
		{0, "range=0:300", "\x01", "field needs 2 bytes; the message has only 1 left"},
		{float32(0), "", "\x7f\xc0\x00", "field needs 4 bytes; the message has only 3 left"},
		{float32(0), "", "\x7f\xc0\x00\x01", "NaN is not the quiet NaN"},
		{0.0, "", "\xff\xf8\x00\x00\x00\x00\x00\x00", "NaN is not the quiet NaN"},
		{0.0, "quant=1", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "invalid float64: -9223372036854775808 quanta of 1"},
		{0.0, "quant=1", "\x82\x80\x80\x80\x80\x80\x80\x04", "invalid float64: 1125899906842625 quanta of 1"},
		{float32(0), "quant=1", "\x82\x80\x80\x10", "invalid float32: 16777217 quanta of 1"},
		{0.0, "quant=1,range=0:9", "\x0a", "value is 10 above the low end of its range; the limit is 9"},
		{vector{}, "unit", "\x00\x00\x00", "field needs 4 bytes; the message has only 3 left"},
		{vector{}, "unit", "\x80\x00\x00\x00", "value is not a direction"},
		{vector{}, "unit", "\x00\x00\x80\x00", "value is not a direction"},
		{"", "max=3", "\x04abcd", "has 4 bytes; the limit is 3 (quiver tag)"},
		{"", "max=3", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "has 2147483647 bytes; the limit is 3 (quiver tag)"},
		{"", "max=3", "\x03ab", "field needs 3 bytes; the message has only 2 left"},
		{"", "max=3", "\x02\xc3\x28", "string is not UTF-8"},
		{[]int{}, "max=3", "\x04\x00\x00\x00\x00", "has 4 elements; the limit is 3 (quiver tag)"},
		{[]int{}, "max=3", "\x03\x00\x00", "3 elements cannot fit in the remaining 2 bytes"},
		{[]int{}, "max=3", "\x02\x00\x80", "varint is truncated or overflows 64 bits"},
		{[]byte{}, "max=3", "\x03\x00\x00", "3 elements cannot fit in the remaining 2 bytes"},
		{[3]byte{}, "", "\x00\x00", "field needs 3 bytes; the message has only 2 left"},
		{[2]bool{}, "", "\x00\x03", "bool is 3 instead of 0 or 1"},
		{pair{}, "", "\x00\x80", "B: varint is truncated or overflows 64 bits"},
	} {
		typ := one(c.value, c.tag)
		p, err := state.Compile(typ, reflect.TypeFor[Ref]())
		require.NoError(t, err)
		_, err = p.Read([]byte(c.wire), reflect.New(typ).Elem(), 0)
		assert.EqualError(t, err, "struct.F: "+c.text, "%x", c.wire)
		_, err = p.Skip([]byte(c.wire), 0)
		assert.EqualError(t, err, "struct.F: "+c.text, "%x", c.wire)
	}
}

// TestClaimsTakeNoMemory reads slices that claim elements which are not there.
func TestClaimsTakeNoMemory(t *testing.T) {
	type large struct {
		Big []struct {
			A string `quiver:"max=2"`
			B string `quiver:"max=2"`
		} `quiver:"max=160"`
	}
	p, v := compile[large](t), reflect.ValueOf(&large{}).Elem()
	wire := append([]byte("\xa0\x01"), make([]byte, 300)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		_, err := p.Read(wire, v, 0)
		require.EqualError(t, err, "large.Big: 160 elements cannot fit in the remaining 300 bytes")
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1000*160*32/2))
}

// FuzzRead reads the input as fields of a state with every kind and tag. What
// Read accepts, Skip does, too, and Append writes again.
func FuzzRead(f *testing.F) {
	p := compile[rich](f)
	for i := range p.NumFields() {
		b, err := p.Append([]byte{byte(i)}, reflect.ValueOf(rich{Name: "ann", Tags: []string{"a"}, Items: make([]item, 2)}), i)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		i, b := int(data[0])%p.NumFields(), data[1:]
		v := reflect.New(reflect.TypeFor[rich]()).Elem()
		for range 3 {
			rest, err := p.Read(b, v, i)
			skipped, other := p.Skip(b, i)
			require.Equal(t, err, other, "Read and Skip differ about %x", b)
			if err != nil {
				return
			}
			require.Equal(t, len(rest), len(skipped))
			again, err := p.Append(nil, v, i)
			require.NoError(t, err)
			require.Equal(t, b[:len(b)-len(rest)], again, p.Field(i).Name)
			require.LessOrEqual(t, len(again), state.MaxFieldBytes)
			b, i = rest, (i+1)%p.NumFields()
		}
	})
}

// FuzzReadMask does so with masks.
func FuzzReadMask(f *testing.F) {
	f.Add(12, []byte("\x01\x08"))
	f.Add(64, []byte("\x81\x08\x80"))
	f.Fuzz(func(t *testing.T, n int, b []byte) {
		n = 1 + int(uint(n)%state.MaxFields)
		m, rest, err := state.ReadMask(b, n)
		if err == nil {
			require.Equal(t, string(b[:len(b)-len(rest)]), string(state.AppendMask(nil, m, n)))
		}
	})
}

// TestCompileTakesAnyStruct holds what Compile says about whole types.
func TestCompileTakesAnyStruct(t *testing.T) {
	_, err := state.Compile(reflect.TypeFor[int](), nil)
	assert.EqualError(t, err, "int: state must be a struct type")
	_, err = state.Compile(reflect.TypeFor[*rich](), nil)
	assert.EqualError(t, err, "*state_test.rich: state must be a struct type")
	_, err = state.Compile(reflect.TypeFor[rich](), reflect.TypeFor[uint32]())
	assert.EqualError(t, err, "uint32: reference type must be a uint64")
	_, err = state.Compile(reflect.TypeFor[empty](), nil)
	assert.EqualError(t, err, "empty: state has 0 fields; it must have 1 to 64, where a nested struct counts as one")
	_, err = state.Compile(many(65), nil)
	assert.EqualError(t, err, "struct: state has 65 fields; it must have 1 to 64, where a nested struct counts as one")
	_, err = state.Compile(reflect.TypeFor[struct {
		Vast [1 << 20]struct{ A [1 << 10]bool }
	}](), nil)
	assert.EqualError(t, err, "struct.Vast may need 536870912 or more bytes; the limit for a field is 1000: set a lower bound, split it, or use a list")
	_, err = state.Compile(reflect.StructOf([]reflect.StructField{{Name: "Tall", Type: tall(11)}}), nil)
	assert.ErrorContains(t, err, "field has more than 1000 scalars of at least a byte each; the limit for a field is 1000 bytes: split it")
	_, err = state.Compile(reflect.TypeFor[loop](), nil)
	assert.ErrorContains(t, err, "loop.Next[]: state_test.loop contains itself")
}

// many returns a struct of n bools.
func many(n int) reflect.Type {
	var fields []reflect.StructField
	for i := range n {
		fields = append(fields, reflect.StructField{Name: "F" + strings.Repeat("f", i), Type: reflect.TypeFor[bool]()})
	}
	return reflect.StructOf(fields)
}

// tall returns a struct of two structs of two structs and so on.
func tall(depth int) reflect.Type {
	t := reflect.TypeFor[bool]()
	for range depth {
		t = reflect.StructOf([]reflect.StructField{{Name: "A", Type: t}, {Name: "B", Type: t}})
	}
	return t
}

// TestWidestState updates, writes and reads a state of 64 fields of 1,000 bytes each.
func TestWidestState(t *testing.T) {
	var fields []reflect.StructField
	for i := range state.MaxFields {
		fields = append(fields, reflect.StructField{Name: "F" + strings.Repeat("f", i), Type: reflect.TypeFor[string](), Tag: `quiver:"max=998"`})
	}
	typ := reflect.StructOf(fields)
	p, err := state.Compile(typ, nil)
	require.NoError(t, err)
	v, got, s := reflect.New(typ).Elem(), reflect.New(typ).Elem(), state.Shadow{}
	for i := range state.MaxFields {
		v.Field(i).SetString(strings.Repeat("x", 998))
	}
	changed, err := s.Update(p, v)
	require.NoError(t, err)
	assert.Equal(t, p.All(), changed)
	assert.Equal(t, 64_000, s.Size(changed))
	b := s.Append(nil, changed)
	for i := range p.NumFields() {
		b, err = p.Read(b, got, i)
		require.NoError(t, err)
	}
	assert.Equal(t, v.Interface(), got.Interface())
}
