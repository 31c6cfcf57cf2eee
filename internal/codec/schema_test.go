package codec

import (
	"encoding/json"
	"math/big"
	"net"
	"reflect"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
)

type (
	hooked   struct{}
	halfway  struct{}
	appender struct{}
	byValue  struct{}
	copied   struct{}
	unnamed  int
	pointed  struct{ *base }
	inlined  struct {
		Count `msgpack:",inline"`
	}
	Count    int
	promoter struct {
		time.Time
		X int
	}
	shadowed struct {
		base
		Kind int
	}
	hidden struct{ unnamed }
	aside  struct {
		base `msgpack:",noinline"`
	}
	interned struct {
		S string `msgpack:",intern"`
	}
	double struct {
		A base
		B base `msgpack:",noinline"`
	}
	aliased struct {
		C int `msgpack:"C,alias:X"`
		Base
	}
	Base     struct{ X int }
	Other    struct{ Base int }
	twoBases struct { // msgpack takes Other for a field, because Base is the name of another
		Base
		Other
	}
	moment struct { // refused by itself
		time.Time
		X int
	}
	momentary struct{ moment } // so must be what has its methods
	octet     uint8
	selfMap   struct {
		Sum  [4]octet
		Kids map[string]selfMap
	}
	twoFaced struct{}
	chosen   struct { // writes itself, and what it embeds does not
		Base
		Y int
	}
)

// Structs of which nothing would be encoded, or less than nothing.
type (
	shut struct{ x, y int }
	kept struct {
		_ Never `codec:"stay here"`
		x int
	}
	stamp    time.Time
	negative string
)

func (negative) MaxEncodedSize() int { return -1 }

// msgpack uses the text, because it is a method of the value.
func (twoFaced) MarshalText() ([]byte, error)    { return nil, nil }
func (*twoFaced) MarshalBinary() ([]byte, error) { return nil, nil }
func (*twoFaced) UnmarshalBinary([]byte) error   { return nil }

func (chosen) MarshalBinary() ([]byte, error) { return nil, nil }
func (*chosen) UnmarshalBinary([]byte) error  { return nil }

func (*hooked) DecodeMsgpack(*msgpack.Decoder) error    { return nil }
func (*halfway) MarshalBinary() ([]byte, error)         { return nil, nil }
func (*appender) AppendBinary(b []byte) ([]byte, error) { return b, nil }
func (*appender) UnmarshalBinary([]byte) error          { return nil }
func (copied) AppendBinary(b []byte) ([]byte, error)    { return b, nil }
func (copied) UnmarshalBinary([]byte) error             { return nil }
func (byValue) MarshalText() ([]byte, error)            { return nil, nil }
func (byValue) UnmarshalText([]byte) error              { return nil }

func TestTypesThatCanNotTravel(t *testing.T) {
	for _, test := range []struct {
		typ  reflect.Type
		want string
	}{
		{reflect.TypeFor[any](), "values of kind interface cannot be encoded"},
		{reflect.TypeFor[struct{ E error }](), ".E: values of kind interface cannot be encoded"},
		{reflect.TypeFor[struct{ F func() }](), ".F: values of kind func cannot be encoded"},
		{reflect.TypeFor[struct{ C chan int }](), ".C: values of kind chan cannot be encoded"},
		{reflect.TypeFor[[]complex64](), "[]: values of kind complex64 cannot be encoded"},
		{reflect.TypeFor[uintptr](), "values of kind uintptr cannot be encoded"},
		{reflect.TypeFor[unsafe.Pointer](), "values of kind unsafe.Pointer cannot be encoded"},
		{reflect.TypeFor[map[string]any](), "[value]: values of kind interface cannot be encoded"},
		{reflect.TypeFor[map[*int]int](), "map keys must be"},
		{reflect.TypeFor[map[struct{ P *int }]int](), "map keys must be"},
		{reflect.TypeFor[struct{ P **int }](), ".P: pointers to pointers"},
		{reflect.TypeFor[*vector](), "use the value itself"},
		{reflect.TypeFor[hooked](), "implements msgpack.CustomDecoder, whose input cannot be bounded"},
		{reflect.TypeFor[halfway](), "must implement both marshaling and unmarshaling"},
		{reflect.TypeFor[[]appender](), "also needs MarshalBinary"},
		{reflect.TypeFor[byValue](), "must have a pointer receiver"},
		{reflect.TypeFor[copied](), "the unmarshaling method of codec.copied must have a pointer receiver"},
		{reflect.TypeFor[pointed](), ".base: embedded field must be a struct or an exported type, and not a pointer"},
		{reflect.TypeFor[struct{ *Base }](), ".Base: embedded field must be a struct or an exported type, and not a pointer"},
		{reflect.TypeFor[hidden](), ".unnamed: embedded field must be a struct or an exported type, and not a pointer"},
		{reflect.TypeFor[promoter](), "embeds time.Time, whose methods would encode only the embedded value: give the field a name"},
		{reflect.TypeFor[[]promoter](), "embeds time.Time, whose methods would encode only the embedded value: give the field a name"},
		{reflect.TypeFor[inlined](), "embedded field must be a struct or an exported type"},
		{reflect.TypeFor[shadowed](), "two fields are named Kind"},
		{reflect.TypeFor[aside](), "cannot be noinline"},
		{reflect.TypeFor[[]kept](), "[]: stay here"},
		{reflect.TypeFor[struct{ L sync.Mutex }](), ".L: sync.Mutex has no encoded fields"},
		{reflect.TypeFor[[]shut](), "[]: codec.shut has no encoded fields, so it would arrive empty"},
		{reflect.TypeFor[struct{ At stamp }](), ".At: codec.stamp has no encoded fields"},
		{reflect.TypeFor[map[shut]int](), "[key]: codec.shut has no encoded fields"},
		{reflect.TypeFor[negative](), "MaxEncodedSize of codec.negative is -1"},
		{reflect.TypeFor[struct{ N negative }](), ".N: MaxEncodedSize of codec.negative is -1"},
		{reflect.TypeFor[interned](), ".S: interned strings are not supported"},
		{reflect.TypeFor[aliased](), ".C: aliases are not supported"},
		{reflect.TypeFor[twoBases](), ".Other: field Base has the name of a struct embedded before it"},
		{reflect.TypeFor[struct{ P momentary }](), "embeds time.Time, whose methods would encode only the embedded value"},
		{reflect.TypeFor[struct{ T twoFaced }](), ".T: MarshalBinary of codec.twoFaced must have a value receiver, because its MarshalText has one"},
		{reflect.TypeFor[map[string]big.Int](), "[value]: big.Int cannot be encoded in a map, where it has no address: use pointers to it"},
		{reflect.TypeFor[map[string]struct{ A [2]big.Int }](), "[value].A[]: big.Int cannot be encoded in a map"},
		{reflect.TypeFor[map[[2]octet]int](), "[key]: [2]codec.octet cannot be encoded in a map"},
		{reflect.TypeFor[selfMap](), "[value].Sum: [4]codec.octet cannot be encoded in a map"},
	} {
		_, err := Of(test.typ)
		require.ErrorContains(t, err, test.want, "%v", test.typ)
	}
}

func TestSchemaForms(t *testing.T) {
	for _, test := range []struct {
		typ  reflect.Type
		form form
		name string
	}{
		{reflect.TypeFor[time.Duration](), formInt, "int64"},
		{reflect.TypeFor[json.RawMessage](), formBytes, "bytes"},
		{reflect.TypeFor[[4]byte](), formByteArray, "[4]byte"},
		{reflect.TypeFor[big.Int](), formOpaque, "text big.Int"},
		{reflect.TypeFor[net.IP](), formOpaque, "text net.IP"},
		{reflect.TypeFor[*big.Int](), formPointer, "*"},
		{reflect.TypeFor[chosen](), formOpaque, "binary codec.chosen"},
		{reflect.TypeFor[double](), formStruct, "struct"},
		{reflect.TypeFor[[2]int](), formArray, "[2]"},
	} {
		s, err := schemaOf(test.typ)
		require.NoError(t, err, "%v", test.typ)
		require.Equal(t, test.form, s.form, "%v", test.typ)
		require.Equal(t, test.name, s.name, "%v", test.typ)
	}
}

// A nil that encodes a value which encodes itself is decoded as nil.
func TestOpaqueNil(t *testing.T) {
	type address struct {
		IP  net.IP
		Big *big.Int
	}
	for _, want := range []address{{}, {IP: net.IPv4(1, 2, 3, 4), Big: big.NewInt(5)}} {
		var got address
		rest, _, err := take(encode(t, &want), &got)
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, want, got)
	}
}

func TestSchemaOfRecursiveType(t *testing.T) {
	s, err := schemaOf(reflect.TypeFor[tree]())
	require.NoError(t, err)
	require.Same(t, s, s.fields[1].schema.elem)
	require.Same(t, s, s.fields[2].schema.elem)
}

// Arrays and pointers that lead back to themselves without a struct or a slice between.
type (
	ring     [1]*ring
	ringSide [2]*ringSide
)

func TestTypesThatAreTheirOwnPart(t *testing.T) {
	c, err := Of(reflect.TypeFor[ring]())
	require.NoError(t, err)
	require.ErrorContains(t, c.Size().Unbounded, "ring[] is unbounded, because codec.ring contains itself: add a MaxEncodedSize")
	want := ring{&ring{&ring{}}}
	var got ring
	_, _, err = take(encode(t, &want), &got)
	require.NoError(t, err)
	require.Equal(t, want, got)

	_, err = Of(reflect.TypeFor[struct {
		R ring `quiver:"max=3"`
	}]())
	require.ErrorContains(t, err, `.R: tag "max=3": unused bound: codec.ring needs fewer`)
	_, err = Of(reflect.TypeFor[struct {
		R []ringSide `quiver:"max=3,each=4"`
	}]())
	require.ErrorContains(t, err, `.R: tag "max=3,each=4": unused bound: []codec.ringSide needs fewer`)
}
