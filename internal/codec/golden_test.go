package codec

import (
	"encoding/hex"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Types whose bytes and shapes are written down below: programs of different
// releases of Quiver must understand each other.
type (
	goldenBase struct {
		ID   uint64
		Name string `quiver:"max=24"`
	}
	goldenItem struct {
		goldenBase
		Count int `msgpack:"count"`
		At    [3]float32
		Tags  []string          `quiver:"max=6,each=12"`
		Index map[string][]int8 `quiver:"max=2,key=4,each=3"`
		Next  *goldenItem
		Made  time.Time
		Life  time.Duration
		Sum   [4]byte
		Data  []byte `quiver:"max=9"`
		From  netip.Addr
		Price *big.Int
		Alive bool
		Local func() `msgpack:"-"`
	}
	goldenFlat struct {
		A int8
		B uint16
		C int32
		D float64
		E [2]bool
	}
)

// goldenEncodings are what is known of types before there is a value.
var goldenEncodings = []struct {
	typ   reflect.Type
	shape string
	most  int
	fixed bool
}{
	{reflect.TypeFor[goldenBase](), "0a957c99d9345c0f86ddcf206ee929db0120f95a9eebd4d798952b1372279185", 39, false},
	{reflect.TypeFor[goldenItem](), "638c5c6e753169debdebc5cf81094b00e133950f6f78624e7d72e8f84eb39476", 0, false},
	{reflect.TypeFor[goldenFlat](), "8b38cc67d93b660a3737b0642b5e9f5c0fe7f82b39558149b07d176b0afbfcac", 23, true},
	{reflect.TypeFor[[7]goldenFlat](), "19b66da5c3b2aef107db5c805f4e179d17622fb17d8d0a1e04dcc2b97d54ce02", 162, true},
	{reflect.TypeFor[uint32](), "1c06d81634ed9a2e4e5594026e886b021f6ccad84a982c2034d9693403089b91", 5, true},
	{reflect.TypeFor[time.Time](), "e8e45559692f7434afa4db1eb521dd68101ca692584b805700b7ae0e32184920", 17, true},
	{reflect.TypeFor[Raw](), "d7439bee24773bcbfa2d0a97947ee36227b10d1022b1a55847e928965bb6bfde", 0, false},
	{reflect.TypeFor[None](), "140bedbf9c3f6d56a9846d2ba7088798683f4da0c248231336e6a05679e4fdfe", 0, true},
	{reflect.TypeFor[string](), "473287f8298dba7163a897908958f7c0eae733e25d2e027992ea2edc9bed2fa8", 0, false},
}

func TestGoldenEncodings(t *testing.T) {
	for _, g := range goldenEncodings {
		c, err := Of(g.typ)
		require.NoError(t, err)
		shape, e := c.Shape(), c.Size()
		require.Equal(t, g.shape, hex.EncodeToString(shape[:]), "%v", g.typ)
		require.Equal(t, g.most, e.Most, "%v", g.typ)
		require.Equal(t, g.fixed, e.Fixed, "%v", g.typ)
	}
}

func goldenValue() *goldenItem {
	return &goldenItem{
		goldenBase: goldenBase{ID: math.MaxUint64, Name: "ärrow"}, Count: -300, At: [3]float32{1.5, 0, float32(math.Inf(-1))},
		Tags: []string{"", "sharp"}, Index: map[string][]int8{"k": {-128, 127}}, Next: &goldenItem{Tags: []string{}},
		Made: time.Unix(1<<33, 5), Life: time.Minute, Sum: [4]byte{1, 2, 3, 4}, Data: []byte{9},
		From: netip.MustParseAddr("10.0.0.1"), Price: big.NewInt(-70000), Alive: true,
	}
}

// golden are values with the bytes that an argument of them takes.
var golden = []struct {
	value any
	bytes string
}{
	{goldenValue(), "9ecfffffffffffffffffa6c3a472726f77d1fed493ca3fc00000ca00000000caff80000092a0a5736861727081a16b92" +
		"d0807f9e00a00093ca00000000ca00000000ca0000000090c0c0c70cff00000000fffffff1886e090000c40400000000" +
		"c0c400c0c2d7ff0000001600000000cf0000000df8475800c40401020304c40109c4040a000001c4062d3730303030c3"},
	{&goldenFlat{A: -1, B: 40000, C: -40000, D: 0.1, E: [2]bool{true, false}}, "95ffcd9c40d2ffff63c0cb3fb999999999999a92c3c2"},
	{&[]uint32{0, 127, 128, 65536}, "94007fcc80ce00010000"},
	{&map[uint8]string{200: "x"}, "81ccc8a178"},
	{new(time.Time), "0f01000000000000000000000000ffff"},
	{&Raw{0xc0, 1, 2}, "03c00102"},
	{&None{}, ""},
}

func TestGoldenBytes(t *testing.T) {
	for _, g := range golden {
		c, err := Of(reflect.TypeOf(g.value).Elem())
		require.NoError(t, err)
		b, err := c.Append(nil, g.value)
		require.NoError(t, err)
		require.Equal(t, g.bytes, hex.EncodeToString(b), "%T", g.value)
	}
}
