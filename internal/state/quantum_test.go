package state_test

import (
	"math"
	"reflect"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/testkit"
)

// floats compiles a state of a float32 and a float64 by one tag.
func floats(t *testing.T, tag string) (*state.Plan, reflect.Value) {
	text := reflect.StructTag(`quiver:"` + tag + `"`)
	typ := reflect.StructOf([]reflect.StructField{
		{Name: "Single", Type: reflect.TypeFor[float32](), Tag: text},
		{Name: "Double", Type: reflect.TypeFor[float64](), Tag: text},
	})
	p, err := state.Compile(typ, nil)
	require.NoError(t, err, tag)
	return p, reflect.New(typ).Elem()
}

// TestQuantaComeBack sends values through random quanta: each is read, lies within half a quantum
// of what was sent unless the type itself is coarser or it was clamped, and is sent again alike.
func TestQuantaComeBack(t *testing.T) {
	r := filler{testkit.Rand(t)}
	for k := range 400 {
		quantum := math.Ldexp(1+r.Float64(), r.IntN(160)-80)
		switch k % 4 {
		case 0: // powers of two and of ten are where halves lie
			quantum = math.Ldexp(1, r.IntN(160)-80)
		case 1:
			quantum = math.Pow(10, float64(r.IntN(24)-12))
		}
		p, v := floats(t, "quant="+strconv.FormatFloat(quantum, 'g', -1, 64))
		for range 100 {
			x := quantum * math.Ldexp(2*r.Float64()-1, r.IntN(56))
			switch r.IntN(6) {
			case 0:
				x = r.float()
			case 1:
				x = quantum * (math.Floor(math.Ldexp(r.Float64(), r.IntN(52))) + 0.5)
			}
			v.Field(0).SetFloat(x)
			v.Field(1).SetFloat(x)
			for i := range 2 {
				sent := v.Field(i).Float()
				b, err := p.Append(nil, v, i)
				require.NoError(t, err)
				_, err = p.Read(b, v, i)
				require.NoError(t, err, "quantum %v, field %d, value %v, %x", quantum, i, sent, b)
				again, err := p.Append(nil, v, i)
				require.NoError(t, err)
				require.Equal(t, b, again)
				got := v.Field(i).Float()
				if math.Abs(sent) < quantum*(1<<49) {
					ulp := []float64{math.Abs(sent) / (1 << 23), math.Abs(sent) / (1 << 51)}[i] + 1e-45
					require.InDelta(t, sent, got, quantum/2+ulp, "quantum %v, field %d", quantum, i)
				}
				require.False(t, math.IsInf(got, 0) || math.IsNaN(got))
			}
		}
	}
}

// TestFurthestQuanta sends the largest values of both types through the largest
// quanta: they do not become infinite.
func TestFurthestQuanta(t *testing.T) {
	for _, quantum := range []string{"2.2e38", "3e38", "1e37", "3.4e38", "5.3e36"} {
		p, v := floats(t, "quant="+quantum)
		for _, x := range []float64{math.MaxFloat64, math.MaxFloat32, math.Inf(-1), -3.3e38} {
			v.Field(0).SetFloat(x)
			v.Field(1).SetFloat(x)
			most := p.MaxSize()
			for i := range 2 {
				b, err := p.Append(nil, v, i)
				require.NoError(t, err)
				most -= len(b)
				_, err = p.Read(b, v, i)
				require.NoError(t, err)
				assert.False(t, math.IsInf(v.Field(i).Float(), 0), "%v by %s", x, quantum)
			}
			assert.GreaterOrEqual(t, most, 0, "%v by %s", x, quantum)
		}
	}
}

// TestRangesOfFloats encodes values in and around ranges; values outside are
// decoded as an end of the range.
func TestRangesOfFloats(t *testing.T) {
	p, v := floats(t, "quant=0.01,range=-1000:999.99")
	for _, c := range []struct{ sent, got float64 }{
		{-1e30, -1000}, {-1000.004, -1000}, {-1000, -1000}, {-999.996, -1000}, {0, 0}, {999.99, 999.99}, {1000, 999.99}, {math.Inf(1), 999.99},
	} {
		for i := range 2 {
			v.Field(i).SetFloat(c.sent)
			b, err := p.Append(nil, v, i)
			require.NoError(t, err)
			assert.Len(t, b, 3)
			_, err = p.Read(b, v, i)
			require.NoError(t, err)
			assert.InDelta(t, c.got, v.Field(i).Float(), 1e-4)
		}
	}
}

// TestUnitError sends random directions, and measures how far aside they are read.
func TestUnitError(t *testing.T) {
	type looks struct {
		Single vector     `quiver:"unit"`
		Double [3]float64 `quiver:"unit"`
	}
	p, value := compile[looks](t), looks{}
	v := reflect.ValueOf(&value).Elem()
	r := testkit.Rand(t)
	worst := 0.0
	for range 30_000 {
		sent := [3]float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
		if r.IntN(4) == 0 {
			sent[r.IntN(3)] = math.Copysign(0, sent[0])
		}
		value = looks{vector{float32(sent[0]), float32(sent[1]), float32(sent[2])}, sent}
		for i := range 2 {
			b, err := p.Append(nil, v, i)
			require.NoError(t, err)
			_, err = p.Read(b, v, i)
			require.NoError(t, err)
			again, err := p.Append(nil, v, i)
			require.NoError(t, err)
			require.Equal(t, b, again)
		}
		got, length := value.Double, math.Hypot(math.Hypot(sent[0], sent[1]), sent[2])
		worst = max(worst, math.Hypot(math.Hypot(got[0]-sent[0]/length, got[1]-sent[1]/length), got[2]-sent[2]/length)*180/math.Pi)
		require.InDelta(t, 1, math.Hypot(math.Hypot(got[0], got[1]), got[2]), 1e-12)
		require.InDelta(t, got[0], float64(value.Single.X), 1e-4)
	}
	t.Logf("at most %.5f degrees aside", worst)
	assert.Less(t, worst, 0.004)
}

// TestUnitPoints reads every sort of point on the square, the edges above all, and expects it back.
func TestUnitPoints(t *testing.T) {
	p, v := compile[struct {
		Look vector `quiver:"unit"`
	}](t), reflect.ValueOf(&struct{ Look vector }{}).Elem()
	values := []int{-32767, -32766, -16384, -16383, -1, 0, 1, 2, 16383, 16384, 32766, 32767}
	r := testkit.Rand(t)
	for range 50 {
		values = append(values, r.IntN(65535)-32767)
	}
	for _, x := range values {
		for _, y := range values {
			b := []byte{byte(x >> 8), byte(x), byte(y >> 8), byte(y)}
			_, err := p.Read(b, v, 0)
			require.NoError(t, err)
			again, err := p.Append(nil, v, 0)
			require.NoError(t, err)
			require.Equal(t, b, again, "%d, %d", x, y)
		}
	}
}

// TestMostIsWhatTheLargestTakes: with a smaller result the caller would build
// messages that fit nowhere.
func TestMostIsWhatTheLargestTakes(t *testing.T) {
	type large struct {
		Double float64
		Single float32
		Bytes  [3]byte
		Number uint64
		List   []float64 `quiver:"max=2"`
	}
	p, err := state.Compile(reflect.TypeFor[large](), nil)
	require.NoError(t, err)
	v := reflect.ValueOf(&large{Number: math.MaxUint64, List: []float64{1, 2}}).Elem()
	var b []byte
	for i := range v.NumField() {
		b, err = p.Append(b, v, i)
		require.NoError(t, err)
	}
	require.Len(t, b, p.MaxSize())
}
