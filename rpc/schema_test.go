package rpc

import (
	"encoding/json"
	"math/big"
	"net"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"
)

type (
	hooked   struct{}
	halfway  struct{}
	appender struct{}
	byValue  struct{}
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
)

// Structs of which nothing would travel, or less than nothing.
type (
	shut     struct{ x, y int }
	stamp    time.Time
	negative string
)

func (negative) MaxEncodedSize() int { return -1 }

func (*hooked) DecodeMsgpack(*msgpack.Decoder) error    { return nil }
func (*halfway) MarshalBinary() ([]byte, error)         { return nil, nil }
func (*appender) AppendBinary(b []byte) ([]byte, error) { return b, nil }
func (*appender) UnmarshalBinary([]byte) error          { return nil }
func (byValue) MarshalText() ([]byte, error)            { return nil, nil }
func (byValue) UnmarshalText([]byte) error              { return nil }

func TestTypesThatCanNotTravel(t *testing.T) {
	for _, test := range []struct {
		typ  reflect.Type
		want string
	}{
		{reflect.TypeFor[any](), "a interface can not be encoded"},
		{reflect.TypeFor[struct{ E error }](), ".E: a interface can not be encoded"},
		{reflect.TypeFor[struct{ F func() }](), ".F: a func can not be encoded"},
		{reflect.TypeFor[struct{ C chan int }](), ".C: a chan can not be encoded"},
		{reflect.TypeFor[[]complex64](), "[]: a complex64 can not be encoded"},
		{reflect.TypeFor[uintptr](), "a uintptr can not be encoded"},
		{reflect.TypeFor[map[string]any](), "[value]: a interface can not be encoded"},
		{reflect.TypeFor[map[*int]int](), "map keys must be"},
		{reflect.TypeFor[map[struct{ P *int }]int](), "map keys must be"},
		{reflect.TypeFor[struct{ P **int }](), ".P: a pointer to a pointer"},
		{reflect.TypeFor[*vector](), "use the value itself"},
		{reflect.TypeFor[hooked](), "is a msgpack.CustomDecoder, whose input can not be bounded"},
		{reflect.TypeFor[halfway](), "must both marshal and unmarshal itself"},
		{reflect.TypeFor[[]appender](), "needs MarshalBinary too"},
		{reflect.TypeFor[byValue](), "with a pointer receiver"},
		{reflect.TypeFor[pointed](), ".base: embed an exported type or a struct, by value"},
		{reflect.TypeFor[hidden](), ".unnamed: embed an exported type or a struct, by value"},
		{reflect.TypeFor[promoter](), "embeds time.Time, whose methods would write it alone; give the field a name"},
		{reflect.TypeFor[[]promoter](), "embeds time.Time, whose methods would write it alone; give the field a name"},
		{reflect.TypeFor[inlined](), "embed an exported type or a struct"},
		{reflect.TypeFor[shadowed](), "two fields are called Kind"},
		{reflect.TypeFor[aside](), "can not be noinline"},
		{reflect.TypeFor[Actor](), "rpc.Actor: an actor can not be encoded"},
		{reflect.TypeFor[struct{ Target *Actor }](), ".Target: an actor can not be encoded; send a number"},
		{reflect.TypeFor[struct{ In struct{ Targets []*Actor } }](), ".In.Targets[]: an actor can not be encoded"},
		{reflect.TypeFor[map[string][2]*Actor](), "[value][]: an actor can not be encoded"},
		{reflect.TypeFor[struct{ Actor }](), ".Actor: an actor can not be encoded"},
		{reflect.TypeFor[struct{ C *Conn }](), ".C: rpc.Conn has no field that travels"},
		{reflect.TypeFor[struct{ L sync.Mutex }](), ".L: sync.Mutex has no field that travels"},
		{reflect.TypeFor[[]shut](), "[]: rpc.shut has no field that travels, so it would arrive empty"},
		{reflect.TypeFor[struct{ At stamp }](), ".At: rpc.stamp has no field that travels"},
		{reflect.TypeFor[map[shut]int](), "[key]: rpc.shut has no field that travels"},
		{reflect.TypeFor[negative](), "MaxEncodedSize of rpc.negative is -1"},
		{reflect.TypeFor[struct{ N negative }](), ".N: MaxEncodedSize of rpc.negative is -1"},
		{reflect.TypeFor[interned](), ".S: interned strings are not supported"},
	} {
		_, err := codecOf(test.typ)
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
		{reflect.TypeFor[double](), formStruct, "struct"},
		{reflect.TypeFor[[2]int](), formArray, "[2]"},
	} {
		s, err := schemaOf(test.typ)
		require.NoError(t, err, "%v", test.typ)
		require.Equal(t, test.form, s.form, "%v", test.typ)
		require.Equal(t, test.name, s.name, "%v", test.typ)
	}
}

// A nil that stands for a value which writes itself arrives as nil.
func TestOpaqueNil(t *testing.T) {
	type address struct {
		IP  net.IP
		Big *big.Int
	}
	for _, want := range []address{{}, {IP: net.IPv4(1, 2, 3, 4), Big: big.NewInt(5)}} {
		var got address
		rest, err := DecodeValue(encode(t, &want), &got)
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
