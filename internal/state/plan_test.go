package state_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/state"
)

// Ref is a reference to an actor, as package rpc has it.
type Ref uint64

func compile[S any](t testing.TB) *state.Plan {
	p, err := state.Compile(reflect.TypeFor[S](), reflect.TypeFor[Ref]())
	require.NoError(t, err)
	return p
}

type vector struct{ X, Y, Z float32 }

// blankFirst is a vector, too.
type blankFirst struct {
	_       struct{}
	X, Y, Z float32
}

// one is a state of one field, whose tag a case brings along.
func one(value any, tag string) reflect.Type {
	f := reflect.StructField{Name: "F", Type: reflect.TypeOf(value)}
	if tag != "" {
		f.Tag = reflect.StructTag(`quiver:"` + tag + `"`)
	}
	return reflect.StructOf([]reflect.StructField{f})
}

// TestEncodings holds what each kind looks like on the wire, and what is read from that.
func TestEncodings(t *testing.T) {
	nan := float32(math.NaN())
	type nested struct {
		A bool
		_ struct{}
		B []int16 `quiver:"max=3"`
	}
	type health uint16
	for _, c := range []struct {
		value any
		tag   string
		wire  string
		line  string
		read  any // nil: the value itself
	}{
		{value: true, wire: "\x01", line: "bool"},
		{value: int8(-2), wire: "\xfe", line: "int8"},
		{value: uint8(200), wire: "\xc8", line: "uint8"},
		{value: int16(-3), wire: "\x05", line: "int16"},
		{value: int32(64), wire: "\x80\x01", line: "int32"},
		{value: int64(math.MinInt64), wire: "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", line: "int64"},
		{value: -1, wire: "\x01", line: "int"},
		{value: uint(7), wire: "\x07", line: "uint"},
		{value: uint16(300), wire: "\xac\x02", line: "uint16"},
		{value: uint32(1), wire: "\x01", line: "uint32"},
		{value: uint64(math.MaxUint64), wire: "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", line: "uint64"},
		{value: health(5), wire: "\x05", line: "uint16"},
		{value: time.Second, wire: "\x80\xa8\xd6\xb9\x07", line: "int64"},
		{value: Ref(300), wire: "\xac\x02", line: "reference"},
		{value: float32(1.5), wire: "\x3f\xc0\x00\x00", line: "float32"},
		{value: nan, wire: "\x7f\xc0\x00\x00", line: "float32"},
		{value: -math.NaN(), wire: "\x7f\xf8\x00\x00\x00\x00\x00\x00", line: "float64"},
		{value: 1.5, wire: "\x3f\xf8\x00\x00\x00\x00\x00\x00", line: "float64"},
		{value: "hi", tag: "max=9", wire: "\x02hi", line: "string, max 9"},
		{value: []byte("hi"), tag: "max=9", wire: "\x02hi", line: "[max 9](uint8)"},
		{value: []int8{-1, 1}, tag: "max=9", wire: "\x02\xff\x01", line: "[max 9](int8)"},
		{value: []string{"a", ""}, tag: "max=9,each=2", wire: "\x02\x01a\x00", line: "[max 9](string, max 2)"},
		{value: []bool{}, tag: "max=9", wire: "\x00", line: "[max 9](bool)", read: []bool(nil)},
		{value: [2]uint16{1, 2}, wire: "\x01\x02", line: "[2](uint16)"},
		{value: [2]byte{1, 200}, wire: "\x01\xc8", line: "[2](uint8)"},
		{value: [2]string{"a", "b"}, tag: "max=1", wire: "\x01a\x01b", line: "[2](string, max 1)"},
		{value: nested{A: true, B: []int16{1}}, wire: "\x01\x01\x02", line: "struct{A: bool; B: [max 3](int16)}"},
		{value: int16(70), tag: "range=-30:70", wire: "\x64", line: "int16, range -30:70"},
		{value: int16(71), tag: "range=-30:70", wire: "\x64", line: "int16, range -30:70", read: int16(70)},
		{value: int16(-99), tag: "range=-30:70", wire: "\x00", line: "int16, range -30:70", read: int16(-30)},
		{value: uint32(0), tag: "range=10:265", wire: "\x00", line: "uint32, range 10:265", read: uint32(10)},
		{value: uint32(266), tag: "range=10:266", wire: "\x01\x00", line: "uint32, range 10:266"},
		{value: uint8(9), tag: "range=0:100", wire: "\x09", line: "uint8, range 0:100"},
		{value: int64(-1), tag: "range=-9223372036854775808:9223372036854775807", wire: "\x7f\xff\xff\xff\xff\xff\xff\xff", line: "int64, range -9223372036854775808:9223372036854775807"},
		{value: float32(-1.234), tag: "quant=0.01", wire: "\xf5\x01", line: "float32, quant 0.01", read: float32(-1.23)},
		{value: -1.236, tag: "quant=0.01", wire: "\xf7\x01", line: "float64, quant 0.01", read: -1.24},
		{value: nan, tag: "quant=0.01", wire: "\x00", line: "float32, quant 0.01", read: float32(0)},
		{value: math.Inf(1), tag: "quant=0.5", wire: "\x80\x80\x80\x80\x80\x80\x80\x04", line: "float64, quant 0.5", read: float64(1 << 49)},
		{value: math.Inf(-1), tag: "quant=0.5", wire: "\xff\xff\xff\xff\xff\xff\xff\x03", line: "float64, quant 0.5", read: -float64(1 << 49)},
		{value: 3.14, tag: "quant=0.1,range=-5:5", wire: "\x51", line: "float64, quant 0.1, range -50:50 quanta", read: float64(31) * 0.1},
		{value: 99.0, tag: "quant=0.1,range=-5:5", wire: "\x64", line: "float64, quant 0.1, range -50:50 quanta", read: 5.0},
		{value: math.NaN(), tag: "quant=1,range=3:5", wire: "\x00", line: "float64, quant 1, range 3:5 quanta", read: 3.0},
		{value: math.NaN(), tag: "quant=1,range=-5:-3", wire: "\x02", line: "float64, quant 1, range -5:-3 quanta", read: -3.0},
		{value: []vector{{1, 2, 3}}, tag: "max=2,quant=1", wire: "\x01\x02\x04\x06", line: "[max 2](struct{X: float32, quant 1; Y: float32, quant 1; Z: float32, quant 1})"},
		{value: [3]float64{0, 0, 2}, tag: "unit", wire: "\x00\x00\x00\x00", line: "unit float64", read: [3]float64{0, 0, 1}},
		{value: vector{-2, 0, 0}, tag: "unit", wire: "\x80\x01\x00\x00", line: "unit float32", read: vector{-1, 0, 0}},
		{value: vector{}, tag: "unit", wire: "\x80\x00\x80\x00", line: "unit float32"},
		{value: blankFirst{X: 1}, tag: "unit", wire: "\x7f\xff\x00\x00", line: "unit float32"},
		{value: vector{nan, 1, 1}, tag: "unit", wire: "\x80\x00\x80\x00", line: "unit float32", read: vector{}},
		{value: vector{1, 1, float32(math.Inf(1))}, tag: "unit", wire: "\x80\x00\x80\x00", line: "unit float32", read: vector{}},
		{value: []vector{{0, 1, 0}}, tag: "max=2,unit", wire: "\x01\x00\x00\x7f\xff", line: "[max 2](unit float32)"},
	} {
		typ := one(c.value, c.tag)
		p, err := state.Compile(typ, reflect.TypeFor[Ref]())
		require.NoError(t, err, "%v %s", c.value, c.tag)
		assert.Equal(t, []string{"F: " + c.line}, p.Lines())

		v := reflect.New(typ).Elem()
		v.Field(0).Set(reflect.ValueOf(c.value))
		b, err := p.Append(nil, v, 0)
		require.NoError(t, err)
		assert.Equal(t, c.wire, string(b), "%v %s", c.value, c.tag)

		got := reflect.New(typ).Elem()
		rest, err := p.Read(append(b, 9), got, 0)
		require.NoError(t, err, "%v %s", c.value, c.tag)
		assert.Equal(t, []byte{9}, rest)
		want := c.read
		if want == nil {
			want = c.value
		}
		if f := got.Field(0); f.CanFloat() && math.IsNaN(f.Float()) {
			assert.True(t, math.IsNaN(reflect.ValueOf(want).Float()))
		} else {
			assert.Equal(t, want, f.Interface(), c.tag)
		}
		again, err := p.Append(nil, got, 0)
		require.NoError(t, err)
		assert.Equal(t, b, again, "%v %s", c.value, c.tag)
	}
}

type (
	loop struct {
		Next []loop `quiver:"max=2"`
	}
	inside struct{ hidden int }
	empty  struct{}
	secret struct {
		In struct {
			A int `quiver:"owner"`
		}
	}
	doubling struct {
		A, B [40]struct{ A, B [20]struct{ A, B int64 } }
	}
	vast struct {
		A, B string `quiver:"max=2147483647"`
	}
	mixed struct {
		X, Y float32
		Z    float64
	}
)

// TestRefusals checks what Compile returns for each type that cannot be replicated.
func TestRefusals(t *testing.T) {
	_ = inside{hidden: 1}
	for _, c := range []struct {
		value any
		tag   string
		text  string
	}{
		{map[int]int{}, "", "struct.F: maps cannot be replicated: use a list, or a slice of keys and values with a bound"},
		{[1]map[int]int{}, "", "struct.F[]: maps cannot be replicated: use a list, or a slice of keys and values with a bound"},
		{new(int), "", "struct.F: pointers cannot be replicated: use the value itself, or a reference to an actor"},
		{[1]error{}, "", "struct.F[]: interfaces cannot be replicated: use a struct with a number that selects the case"},
		{func() {}, "", "struct.F: func cannot be replicated: move it out of the state"},
		{make(chan int), "", "struct.F: chan cannot be replicated: move it out of the state"},
		{uintptr(0), "", "struct.F: uintptr cannot be replicated: move it out of the state"},
		{complex64(0), "", "struct.F: complex numbers cannot be replicated: use two floats"},
		{inside{}, "", "struct.F.hidden: field is unexported: export it, or move it out of the state"},
		{time.Time{}, "", "struct.F: time.Time cannot be replicated: use an int64 with its UnixMilli, or a time.Duration"},
		{"", "", `struct.F: string needs a bound: add quiver:"max=…" with its maximum number of bytes, and each=… for each level inside the field`},
		{[]int{}, "", `struct.F: slice needs a bound: add quiver:"max=…" with its maximum number of elements, and each=… for each level inside the field`},
		{[]string{}, "max=3", `struct.F[]: string needs a bound: add quiver:"max=…" with its maximum number of bytes, and each=… for each level inside the field`},
		{"", "max=1000", "struct.F may need 1002 bytes; the limit for a field is 1000: set a lower bound, split it, or use a list"},
		{"", "max=2147483647", "struct.F may need 536870912 or more bytes; the limit for a field is 1000: set a lower bound, split it, or use a list"},
		{[200]int32{}, "", "struct.F: it may need 1000 bytes"},
		{[201]int32{}, "", "struct.F may need 1005 bytes; the limit for a field is 1000: set a lower bound, split it, or use a list"},
		{loop{}, "", "struct.F.Next[]: state_test.loop contains itself, so it cannot be replicated: refer to another actor, or use a list"},
		{empty{}, "", "struct.F: state_test.empty has no fields: leave it out"},
		{[0]int{}, "", "struct.F: [0]int has no elements: leave it out"},
		{doubling{}, "", "struct.F may need 64000 bytes; the limit for a field is 1000: set a lower bound, split it, or use a list"},
		{vast{}, "", "struct.F may need 536870912 or more bytes; the limit for a field is 1000: set a lower bound, split it, or use a list"},
		{secret{}, "", `struct.F.In.A: tag "owner": conditions are allowed only on fields of the state itself`},

		{0, "fast", `struct.F: tag "fast": unknown item "fast": use owner, skipowner, initial, if=name, max=n, each=n, quant=step, range=low:high or unit`},
		{0, "fast=1", `struct.F: tag "fast=1": unknown item "fast": use owner, skipowner, initial, if=name, max=n, each=n, quant=step, range=low:high or unit`},
		{0, "owner=1", `struct.F: tag "owner=1": "owner" cannot have a value: only max, each, quant, range and if can`},
		{0, "if", `struct.F: tag "if": if needs the name of a condition, as in if=spectator`},
		{0, "owner,initial", `struct.F: tag "owner,initial": field cannot have two conditions`},
		{0, "if=a,if=b", `struct.F: tag "if=a,if=b": field cannot have two conditions`},
		{"", "max=0", `struct.F: tag "max=0": max needs a number from 1 to 2147483647`},
		{"", "max", `struct.F: tag "max": max needs a number from 1 to 2147483647`},
		{"", "max=1,max=2", `struct.F: tag "max=1,max=2": max must come first and only once: use each for the levels inside the field`},
		{"", "each=1", `struct.F: tag "each=1": each must come after max`},
		{"", "max=1,each=1", `struct.F: tag "max=1,each=1": unused bound: string needs fewer`},
		{0, "max=1", `struct.F: tag "max=1": unused bound: int needs fewer`},
		{0, "quant=1", `struct.F: tag "quant=1": unused quant: no float in int needs it`},
		{0.0, "quant=0", `struct.F: tag "quant=0": quant must be finite and above 0, as in quant=0.01`},
		{0.0, "quant=NaN", `struct.F: tag "quant=NaN": quant must be finite and above 0, as in quant=0.01`},
		{0.0, "quant=+Inf", `struct.F: tag "quant=+Inf": quant must be finite and above 0, as in quant=0.01`},
		{0.0, "quant=1,quant=2", `struct.F: tag "quant=1,quant=2": quant is given twice`},
		{float32(0), "quant=1e300", `struct.F: quant=1e+300 is too small or too large for float32`},
		{float32(0), "quant=1e-300", `struct.F: quant=1e-300 is too small or too large for float32`},
		{0.0, "range=0:1", `struct.F: tag "range=0:1": unused range: no int in float64 needs it, and floats need a quant with it`},
		{0, "range=1", `struct.F: tag "range=1": range needs two numbers, as in range=0:100`},
		{0, "range=0:1,range=0:1", `struct.F: tag "range=0:1,range=0:1": range is given twice`},
		{uint8(0), "range=0:256", `struct.F: range=0:256: both ends must be values of uint8`},
		{uint8(0), "range=-1:2", `struct.F: range=-1:2: both ends must be values of uint8`},
		{int8(0), "range=5:5", `struct.F: range=5:5: low end 5 must be below high end 5`},
		{int8(0), "range=5:1", `struct.F: range=5:1: low end 5 must be below high end 1`},
		{0.0, "range=5:1,quant=0.5", `struct.F: range=5:1: low end 5 must be at least one quant (0.5) below high end 1`},
		{0.0, "range=a:1,quant=1", `struct.F: range=a:1: both ends must be numbers`},
		{0.0, "range=0:0.4,quant=1", `struct.F: range=0:0.4: low end 0 must be at least one quant (1) below high end 0.4`},
		{0.0, "range=0:1e17,quant=1", `struct.F: range=0:1e+17 is too wide for a float64 with quant=1`},
		{0.0, "range=-1e17:0,quant=0.5", `struct.F: range=-1e+17:0 is too wide for a float64 with quant=0.5`},
		{float32(0), "range=0:16777217,quant=1", `struct.F: range=0:1.6777217e+07 is too wide for a float32 with quant=1`},
		{0, "unit", `struct.F: unit requires three floats in an array or struct, not int`},
		{[2]float32{}, "unit", `struct.F[]: unit requires three floats in an array or struct, not float32`},
		{struct{}{}, "unit", `struct.F: unit requires three floats in an array or struct, not struct {}`},
		{struct{ _ struct{} }{}, "unit", `struct.F: unit requires three floats in an array or struct, not struct { _ struct {} }`},
		{mixed{}, "unit", `struct.F: unit requires three floats in an array or struct, not state_test.mixed`},
		{vector{}, "unit,quant=1", `struct.F: tag "unit,quant=1": unit cannot be combined with quant or range`},
		{Ref(0), "range=0:9", `struct.F: tag "range=0:9": unused range: no int in state_test.Ref needs it, and floats need a quant with it`},
	} {
		_, err := state.Compile(one(c.value, c.tag), reflect.TypeFor[Ref]())
		if strings.HasSuffix(c.text, "need 1000 bytes") {
			assert.NoError(t, err, "the most that is allowed")
			continue
		}
		assert.EqualError(t, err, c.text)
	}
}
