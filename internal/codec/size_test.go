package codec

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
)

// Types whose size is bounded.
type (
	sizedVector struct{ X, Y, Z float32 }
	sizedBase   struct {
		ID   uint64
		Name string `quiver:"max=300"`
	}
	sizedItem struct {
		sizedBase
		Kind     int8
		Flags    uint8
		Count    int
		Price    uint
		Small    int16
		Port     uint16
		Big      int64
		Word     uint32
		Rune     rune
		Ratio    float64
		Alive    bool
		Made     time.Time
		Life     time.Duration
		Owner    *sizedVector
		Data     []byte    `quiver:"max=40000"`
		Tags     []string  `quiver:"max=20,each=40"`
		Grid     [3][4]int `msgpack:"grid"`
		Sum      [32]byte
		Words    [2]string                    `quiver:"max=17"`
		Lines    [][]string                   `quiver:"max=3,each=4,each=200"`
		Points   []sizedVector                `quiver:"max=70"`
		Refs     []*sizedVector               `quiver:"max=5"`
		Index    map[string][]string          `quiver:"max=8,key=16,each=4,each=20"`
		Lookup   map[int32]sizedVector        `quiver:"max=20"`
		Deep     map[string]map[string]string `quiver:"max=3,key=8,each=3,key=9,each=10"`
		Secret   string                       `msgpack:"-"`
		hidden   string
		_msgpack struct{} `msgpack:",omitempty"`
	}
	sizedWide struct {
		A, B, C, D, E, F, G, H, I, J uint8
		sizedTail
	}
	sizedTail struct{ K, L, M, N, O, P, Q, R uint8 }
)

// sizedOwn encodes itself, and says how large it gets.
type sizedOwn struct{ n int }

func (o sizedOwn) MaxEncodedSize() int             { return 90 }
func (o *sizedOwn) MarshalBinary() ([]byte, error) { return make([]byte, 90-o.n), nil }
func (o *sizedOwn) UnmarshalBinary(b []byte) error { o.n = 90 - len(b); return nil }

type sizedText struct{ s string }

func (t sizedText) MarshalText() ([]byte, error)  { return []byte(t.s), nil }
func (t *sizedText) UnmarshalText(b []byte) error { t.s = string(b); return nil }

type sizedOwners struct {
	Own  sizedOwn
	Ptr  *sizedOwn
	List []sizedOwn `quiver:"max=4"`
	Text sizedText  `quiver:"max=0"`
}

func encodeForSize(t *testing.T, v any, compact bool) []byte {
	var buf bytes.Buffer
	e := msgpack.NewEncoder(&buf)
	e.UseArrayEncodedStructs(true)
	e.UseCompactInts(compact)
	require.NoError(t, e.Encode(v))
	return buf.Bytes()
}

// filler makes values within the bounds of their tags; full ones are as large as the bounds allow.
type filler struct {
	rng  *rand.Rand
	full bool
}

func (f filler) upTo(n int) int {
	n = max(n, 0)
	if f.full {
		return n
	}
	return f.rng.IntN(n + 1)
}

func (f filler) number() uint64 {
	if f.full {
		return math.MaxUint64 >> 1
	}
	return f.rng.Uint64() >> f.rng.IntN(64)
}

func (f filler) text(n int) string {
	b := bytes.Repeat([]byte{byte('a' + f.rng.IntN(26))}, f.upTo(n))
	if len(b) > 1 {
		b[0], b[1] = byte('a'+f.rng.IntN(26)), byte('a'+f.rng.IntN(26)) // so that the keys of a map differ
	}
	return string(b)
}

// again returns a copy, to pass its levels once more.
func (b *bounds) again() *bounds {
	if b == nil {
		return nil
	}
	return &bounds{levels: b.levels, depth: b.depth}
}

func (f filler) fill(v reflect.Value, b *bounds) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(int64(f.number()>>(f.rng.IntN(40)+1)), int64(f.rng.IntN(1e9)))))
		return
	case sizedOwn:
		v.Set(reflect.ValueOf(sizedOwn{n: 90 - f.upTo(90)}))
		return
	case sizedText:
		return
	case []byte:
		n := b.next()
		v.SetBytes(make([]byte, f.upTo(n)))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(f.rng.IntN(2) == 1)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.number()) * int64(1-2*f.rng.IntN(2)))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(f.number())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(f.rng.NormFloat64() * 1e6)
	case reflect.String:
		n := b.next()
		v.SetString(f.text(n))
	case reflect.Pointer:
		if f.full || f.rng.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), b)
		}
	default:
		f.container(v, b)
	}
}

func (f filler) container(v reflect.Value, b *bounds) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.IsExported() {
				inner, _ := boundsOf(field)
				f.fill(v.Field(i), inner)
			}
		}
	case reflect.Array:
		f.elements(v, b)
	case reflect.Slice:
		n := b.next()
		v.Set(reflect.MakeSlice(v.Type(), f.upTo(n), n))
		f.elements(v, b)
	case reflect.Map:
		keys := b.keys()
		n := b.next()
		v.Set(reflect.MakeMap(v.Type()))
		for range f.upTo(n) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key, keys.again())
			f.fill(value, b.again())
			v.SetMapIndex(key, value)
		}
	}
}

func (f filler) elements(v reflect.Value, b *bounds) {
	for i := range v.Len() {
		f.fill(v.Index(i), b.again())
	}
}

// mostBytes returns the worst-case size of values of t.
func mostBytes(t reflect.Type) (int, error) {
	c, err := Of(t)
	if err != nil {
		return 0, err
	}
	size := c.Size()
	return size.Most, size.Unbounded
}

func TestRandomValuesNeverExceedTheirPessimisticSize(t *testing.T) {
	rng := testkit.Rand(t)
	types := []reflect.Type{
		reflect.TypeFor[sizedVector](), reflect.TypeFor[sizedBase](), reflect.TypeFor[sizedItem](),
		reflect.TypeFor[sizedWide](), reflect.TypeFor[sizedOwners](), reflect.TypeFor[int](), reflect.TypeFor[uint8](),
		reflect.TypeFor[float32](), reflect.TypeFor[bool](), reflect.TypeFor[time.Time](), reflect.TypeFor[[4][5]float64](),
	}
	for _, typ := range types {
		bound, err := mostBytes(typ)
		require.NoError(t, err, typ)
		for i := range 60 {
			v := reflect.New(typ)
			filler{rng, i%3 == 0}.fill(v.Elem(), nil)
			for _, compact := range []bool{false, true} {
				size := len(encodeForSize(t, v.Interface(), compact))
				require.LessOrEqual(t, size, bound, "%s: %+v", typ, v.Elem())
			}
		}
	}
}

// Types made at random find what hand-made ones miss, such as headers that grow
// with the number of fields.
func TestRandomTypesNeverExceedTheirPessimisticSize(t *testing.T) {
	rng := testkit.Rand(t)
	for range 50 {
		typ := randomType(rng, 3)
		schema, err := schemaOf(typ)
		require.NoError(t, err)
		bound, err := (&sizer{}).maxSize(schema, "", bareTag)
		require.NoError(t, err)
		for i := range 6 {
			v := reflect.New(typ)
			filler{rng, i%2 == 0}.fill(v.Elem(), nil)
			b := encodeForSize(t, v.Interface(), i%4 < 2)
			require.LessOrEqual(t, int64(len(b)), bound)
			n, _, err := measure(schema, b)
			require.NoError(t, err, "within its bounds")
			require.Len(t, b, n)
		}
	}
}

func randomType(rng *rand.Rand, depth int) reflect.Type {
	fields := make([]reflect.StructField, rng.IntN(24))
	for i := range fields {
		var tag []string
		fields[i].Name = "F" + strconv.Itoa(i)
		fields[i].Type = randomFieldType(rng, depth, &tag)
		if len(tag) > 0 {
			fields[i].Tag = reflect.StructTag(`quiver:"` + strings.Join(tag, ",") + `"`)
		}
	}
	return reflect.StructOf(fields)
}

func randomFieldType(rng *rand.Rand, depth int, tag *[]string) reflect.Type {
	leaves := []reflect.Type{
		reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[uint16](), reflect.TypeFor[int32](), reflect.TypeFor[uint64](),
		reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[bool](), reflect.TypeFor[time.Time](), reflect.TypeFor[sizedOwn](),
	}
	bound := func(n int) {
		name := "each="
		if len(*tag) == 0 {
			name = "max="
		}
		*tag = append(*tag, name+strconv.Itoa(rng.IntN(n)))
	}
	kind := rng.IntN(8)
	switch {
	case kind == 0:
		bound(400)
		return reflect.TypeFor[string]()
	case kind == 1:
		bound(400)
		return reflect.TypeFor[[]byte]()
	case depth > 0 && kind == 2:
		bound(20)
		return reflect.SliceOf(randomFieldType(rng, depth-1, tag))
	case depth > 0 && kind == 3:
		return reflect.ArrayOf(rng.IntN(20), randomFieldType(rng, depth-1, tag))
	case depth > 0 && kind == 4:
		return randomType(rng, depth-1)
	case depth > 0 && kind == 5:
		return reflect.PointerTo(randomType(rng, depth-1))
	}
	return leaves[rng.IntN(len(leaves))]
}

func TestElementSize(t *testing.T) {
	tests := map[string]struct {
		typ  reflect.Type
		want int
	}{
		"bool":       {reflect.TypeFor[bool](), 1},
		"int":        {reflect.TypeFor[int](), 1 + strconv.IntSize/8},
		"int8":       {reflect.TypeFor[int8](), 2},
		"uint16":     {reflect.TypeFor[uint16](), 3},
		"float32":    {reflect.TypeFor[float32](), 5},
		"duration":   {reflect.TypeFor[time.Duration](), 9},
		"time":       {reflect.TypeFor[time.Time](), 17},
		"vector":     {reflect.TypeFor[sizedVector](), 1 + 3*5},
		"pointer":    {reflect.TypeFor[struct{ P *sizedVector }](), 1 + 1 + 3*5},
		"array":      {reflect.TypeFor[[20]sizedVector](), 3 + 20*16},
		"byte array": {reflect.TypeFor[[32]byte](), 5 + 32},
		"base":       {reflect.TypeFor[sizedBase](), 1 + 9 + 5 + 300},
		"own":        {reflect.TypeFor[sizedOwn](), 6 + 90},
		"empty":      {reflect.TypeFor[struct{}](), 0},
		"article": {reflect.TypeFor[struct {
			V     sizedVector
			Inner []float32 `quiver:"max=100"`
		}](), 1 + 16 + 5 + 100*5},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := mostBytes(test.typ)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

type sizedNode struct {
	Next *sizedNode
}

// sizedBound has a tag that never ends.
type sizedBound struct {
	Next *sizedBound `quiver:"max=3"`
}

type sizedInner struct {
	Tags []string `quiver:"max=5"`
}

func TestUnboundedFieldsAreNamed(t *testing.T) {
	tests := map[string]struct {
		typ  reflect.Type
		want string
	}{
		"string": {reflect.TypeFor[string](), "string is unbounded"},
		"bytes":  {reflect.TypeFor[[]byte](), "[]uint8 is unbounded"},
		"field":  {reflect.TypeFor[struct{ Name string }](), `.Name is unbounded: add quiver:"max=N", a MaxEncodedSize() int method to its type, or use MaxElementBytes`},
		"inner":  {reflect.TypeFor[sizedInner](), `sizedInner.Tags[] is unbounded: add each=N`},
		"deep":   {reflect.TypeFor[struct{ A [3]*sizedInner }](), `.A[].Tags[] is unbounded`},
		"key": {reflect.TypeFor[struct {
			M map[string]int `quiver:"max=3"`
		}](), `.M[key] is unbounded: add key=N`},
		"value": {reflect.TypeFor[struct {
			M map[int]string `quiver:"max=3"`
		}](), `.M[value] is unbounded: add each=N`},
		"any":       {reflect.TypeFor[struct{ A any }](), ".A: values of kind interface cannot be encoded"},
		"text":      {reflect.TypeFor[struct{ T sizedText }](), `.T is unbounded`},
		"recursive": {reflect.TypeFor[sizedNode](), "sizedNode.Next is unbounded, because codec.sizedNode contains itself"},
		"channel":   {reflect.TypeFor[struct{ C chan int }](), ".C: values of kind chan cannot be encoded"},
		"complex":   {reflect.TypeFor[complex128](), "values of kind complex128 cannot be encoded"},
		"not a number": {reflect.TypeFor[struct {
			S string `quiver:"max=x"`
		}](), `.S: tag "max=x": "max=x" needs a number`},
		"negative": {reflect.TypeFor[struct {
			S string `quiver:"max=-1"`
		}](), `"max=-1" needs a number`},
		"unknown": {reflect.TypeFor[struct {
			S string `quiver:"maximum=1"`
		}](), `unknown item "maximum": use max, each or key`},
		"quantised": {reflect.TypeFor[struct {
			X float32 `quiver:"quant=0.1"`
		}](), `.X: tag "quant=0.1": "quant=0.1" is only for replicated states and lists`},
		"for the owner": {reflect.TypeFor[struct {
			X int `quiver:"owner"`
		}](), `"owner" is only for replicated states and lists`},
		"each first": {reflect.TypeFor[struct {
			S string `quiver:"each=1"`
		}](), "each must come after max"},
		"max twice": {reflect.TypeFor[struct {
			S []string `quiver:"max=1,max=2"`
		}](), "max must come first and only once"},
		"too many": {reflect.TypeFor[struct {
			S string `quiver:"max=1,each=2"`
		}](), ": unused bound: string needs fewer"},
		"idle": {reflect.TypeFor[struct {
			N int `quiver:"max=1"`
		}](), ": unused bound: int needs fewer"},
		"key twice": {reflect.TypeFor[struct {
			M map[string]int `quiver:"max=1,key=4,key=5"`
		}](), "key must come once"},
		"empty tag": {reflect.TypeFor[struct {
			S string `quiver:""`
		}](), "needs a number"},
		"struct": {reflect.TypeFor[struct {
			N *sizedBound `quiver:"max=3"`
		}](), "unused bound: *codec.sizedBound needs fewer"},
		"idle key": {reflect.TypeFor[struct {
			M map[int]int `quiver:"max=1,key=4"`
		}](), ": unused bound: map[int]int needs fewer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := mostBytes(test.typ)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestAbsurdBoundsAreTooLargeInsteadOfOverflowing(t *testing.T) {
	type absurd struct {
		A [][][][]string `quiver:"max=2000000000,each=2000000000,each=2000000000,each=2000000000,each=2000000000"`
		B [1 << 30]struct{}
	}
	size, err := mostBytes(reflect.TypeFor[absurd]())
	require.NoError(t, err)
	require.Equal(t, 1<<31-1, size)
}
