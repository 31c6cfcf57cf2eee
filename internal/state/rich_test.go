package state_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
)

type item struct {
	ID    uint32
	Name  string `quiver:"max=6"`
	Owner Ref
	Where vector
}

// Embedded is a field of its name in what embeds it.
type Embedded struct{ A, B uint16 }

// rich has a field of every kind and tag.
type rich struct {
	Alive   bool
	Small   int8
	Byte    uint8
	Int     int
	Int32   int32
	Uint16  uint16
	Uint64  uint64
	Single  float32
	Double  float64
	Coarse  float32    `quiver:"quant=0.01"`
	Fine    float64    `quiver:"quant=1e-6"`
	Angle   float64    `quiver:"quant=0.1,range=0:360"`
	Percent int        `quiver:"range=-100:100"`
	Wide    uint64     `quiver:"range=5:18446744073709551610"`
	Look    vector     `quiver:"unit"`
	Up      [3]float64 `quiver:"unit"`
	Name    string     `quiver:"max=12,owner"`
	Bytes   []byte     `quiver:"max=5"`
	Hash    [4]byte
	Grid    [2][3]int16
	Tags    []string `quiver:"max=3,each=4,if=tagged"`
	Items   []item   `quiver:"max=3,quant=0.5"`
	Target  Ref      `quiver:"initial"`
	Team    [2]Ref   `quiver:"skipowner"`
	Wait    time.Duration
	_       struct{}
	Embedded
	Item item
}

type filler struct{ *rand.Rand }

// fill sets v to something random, often extreme.
func (r filler) fill(v reflect.Value) {
	switch k := v.Kind(); {
	case k == reflect.Bool:
		v.SetBool(r.IntN(2) == 1)
	case v.CanInt():
		v.SetInt(int64(r.Uint64()) >> r.IntN(64) >> (64 - v.Type().Bits()))
	case v.CanUint():
		v.SetUint(r.Uint64() >> r.IntN(64) >> (64 - v.Type().Bits()))
	case v.CanFloat():
		v.SetFloat(r.float())
	case k == reflect.String:
		v.SetString("äbcäef"[:[]int{0, 2, 3, 4}[r.IntN(4)]])
	case k == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		fallthrough
	case k == reflect.Array:
		for i := range v.Len() {
			r.fill(v.Index(i))
		}
	case k == reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				r.fill(v.Field(i))
			}
		}
	}
}

func (r filler) float() float64 {
	switch r.IntN(8) {
	case 0:
		return math.Float64frombits(r.Uint64())
	case 1:
		return float64(math.Float32frombits(r.Uint32()))
	case 2:
		return []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat32, 5e-324}[r.IntN(8)]
	}
	return r.NormFloat64() * math.Pow(10, float64(r.IntN(10)-3))
}

// TestRoundTrip reads what random values were written as, and expects that the
// values read are written alike.
func TestRoundTrip(t *testing.T) {
	p := compile[rich](t)
	r := filler{testkit.Rand(t)}
	for range 500 {
		var value, copied rich
		r.fill(reflect.ValueOf(&value).Elem())
		got := reflect.ValueOf(&copied).Elem()
		for i := range p.NumFields() {
			b, err := p.Append(nil, reflect.ValueOf(&value).Elem(), i)
			require.NoError(t, err)
			still, err := p.Append(nil, reflect.ValueOf(value), i)
			require.NoError(t, err)
			require.Equal(t, b, still, "a value without an address")

			rest, err := p.Read(b, got, i)
			require.NoError(t, err, "%x", b)
			require.Empty(t, rest)
			rest, err = p.Skip(b, i)
			require.NoError(t, err, "%x", b)
			require.Empty(t, rest)
			again, err := p.Append(nil, got, i)
			require.NoError(t, err)
			require.Equal(t, b, again, "%s: %+v", p.Field(i).Name, got.Field(i))
			for n := range b {
				_, err = p.Read(b[:n], got, i)
				require.Error(t, err, "cut off after %d of %x", n, b)
			}
		}
	}
}
