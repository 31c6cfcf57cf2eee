package state_test

import (
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/testkit"
)

type pose struct {
	X    float32 `quiver:"quant=0.01"`
	Name string  `quiver:"max=4"`
	HP   uint16
	Bag  []string `quiver:"max=2,each=3"`
}

// TestShadowTellsWhatChanged follows one value through what happens to it.
func TestShadowTellsWhatChanged(t *testing.T) {
	p, s := compile[pose](t), state.Shadow{}
	value := pose{X: 1, Name: "ann", HP: 100}
	v := reflect.ValueOf(&value).Elem()
	expect := func(fields state.Mask, wire string) {
		t.Helper()
		assert.Equal(t, fields != 0, s.Differs(p, v))
		changed, err := s.Update(p, v)
		require.NoError(t, err)
		assert.False(t, s.Differs(p, v))
		assert.Equal(t, fields, changed)
		assert.Equal(t, wire, string(s.Append(nil, p.All())))
		assert.Equal(t, len(wire), s.Size(p.All()))
	}
	t.Log("# the first time, all is new")
	expect(0b1111, "\xc8\x01\x03ann\x64\x00")
	t.Log("# nothing changed, or less than a quantum")
	expect(0, "\xc8\x01\x03ann\x64\x00")
	value.X = 1.004
	expect(0, "\xc8\x01\x03ann\x64\x00")
	t.Log("# a field of the same size, one that shrinks, one that grows")
	value.X, value.HP = 1.01, 99
	expect(0b101, "\xca\x01\x03ann\x63\x00")
	value.Name = "é"
	expect(0b10, "\xca\x01\x02é\x63\x00")
	value.X, value.Name, value.Bag = 0, "anna", []string{"axe"}
	expect(0b1011, "\x00\x04anna\x63\x01\x03axe")
	t.Log("# NaN is 0, and no news a second time")
	value.X = float32(math.NaN())
	expect(0, "\x00\x04anna\x63\x01\x03axe")

	assert.Equal(t, "!\x00\x63", string(s.Append([]byte("!"), 0b101)))
	assert.Equal(t, 2, s.Size(0b101))
	assert.Zero(t, s.Size(0))
}

// TestShadowKeepsWhatItHad lets two fields become too long.
func TestShadowKeepsWhatItHad(t *testing.T) {
	p, s := compile[pose](t), state.Shadow{}
	value := pose{X: 1, Name: "annabel", HP: 100}
	v := reflect.ValueOf(&value).Elem()
	changed, err := s.Update(p, v)
	assert.EqualError(t, err, "pose.Name: has 7 bytes; the limit is 4 (quiver tag)")
	assert.Equal(t, p.All(), changed)
	assert.Equal(t, "\xc8\x01\x00\x64\x00", string(s.Append(nil, p.All())), "the zero value at first")

	value.Name = "ann"
	changed, err = s.Update(p, v)
	assert.NoError(t, err)
	assert.Equal(t, state.Mask(0b10), changed)

	value.X, value.Name, value.Bag = 2, "\xff", []string{"ok", "sword"}
	changed, err = s.Update(p, v)
	assert.EqualError(t, err, "pose.Name: string is not UTF-8\npose.Bag: has 5 bytes; the limit is 3 (quiver tag)")
	assert.Equal(t, state.Mask(0b1), changed)
	assert.Equal(t, "\x90\x03\x03ann\x64\x00", string(s.Append(nil, p.All())))

	value.Bag = make([]string, 3)
	_, err = s.Update(p, v)
	assert.ErrorContains(t, err, "pose.Bag: has 3 elements; the limit is 2 (quiver tag)")
}

// TestShadowIsTheValue changes random fields, and expects what a fresh shadow holds.
func TestShadowIsTheValue(t *testing.T) {
	p, s := compile[rich](t), state.Shadow{}
	r := filler{testkit.Rand(t)}
	var value rich
	v := reflect.ValueOf(&value).Elem()
	_, err := s.Update(p, v)
	require.NoError(t, err)
	for range 2000 {
		before := fieldsOf(p, &s)
		for range r.IntN(4) {
			if f := v.Field(r.IntN(v.NumField())); f.CanSet() {
				r.fill(f)
			}
		}
		differs := s.Differs(p, v)
		changed, err := s.Update(p, v)
		require.NoError(t, err)
		require.Equal(t, changed != 0, differs)
		fresh := state.Shadow{}
		_, err = fresh.Update(p, v)
		require.NoError(t, err)
		require.Equal(t, fresh.Append(nil, p.All()), s.Append(nil, p.All()))
		for i, now := range fieldsOf(p, &s) {
			require.Equal(t, before[i] != now, changed>>i&1 != 0, p.Field(i).Name)
			require.Equal(t, len(now), s.Size(1<<i))
		}
	}
}

func fieldsOf(p *state.Plan, s *state.Shadow) (fields []string) {
	for i := range p.NumFields() {
		fields = append(fields, string(s.Append(nil, 1<<i)))
	}
	return fields
}

// twelve is a state as games have it.
type twelve struct {
	X, Y, Z float32 `quiver:"quant=0.01"`
	Look    vector  `quiver:"unit"`
	Yaw     float32 `quiver:"quant=0.1,range=0:360"`
	Health  uint16
	Ammo    uint16 `quiver:"owner"`
	Alive   bool
	Name    string `quiver:"max=32"`
	Target  Ref
	Team    uint8
	Score   int
}

func newTwelve() *twelve {
	return &twelve{X: 120.5, Y: -8, Z: 33.25, Look: vector{0, 1, 0}, Yaw: 90, Health: 100, Ammo: 30, Alive: true, Name: "Ann of Arden", Target: 77, Team: 2, Score: 1200}
}

// move changes what a running player changes at each tick.
func (v *twelve) move(n int) {
	v.X, v.Yaw, v.Look.X = float32(n%1000)+0.25, float32(n%360), float32(n%7)
	v.Health, v.Score = uint16(n%200), n%3000
}

func TestNothingIsAllocated(t *testing.T) {
	p, s, value, n := compile[twelve](t), state.Shadow{}, newTwelve(), 0
	v := reflect.ValueOf(value).Elem()
	b := make([]byte, 0, 1000)
	tick := func() {
		n++
		value.move(n)
		changed, err := s.Update(p, v)
		if err != nil || changed == 0 {
			t.Error("nothing changed", err)
		}
		b = s.Append(state.AppendMask(b[:0], changed, p.NumFields()), changed)
		m, rest, err := state.ReadMask(b, p.NumFields())
		for i := range m.Each {
			if rest, err = p.Skip(rest, i); err != nil {
				t.Error(err)
			}
			rest = rest[:len(rest):len(rest)]
		}
		p.References(v, func(uint64) {})
	}
	for range 3000 {
		tick()
	}
	assert.Zero(t, testing.AllocsPerRun(1000, tick))
}

// TestAReceiverAllocatesStringsOnly reads all fields again and again.
func TestAReceiverAllocatesStringsOnly(t *testing.T) {
	p, s, value := compile[twelve](t), state.Shadow{}, newTwelve()
	v := reflect.ValueOf(value).Elem()
	_, err := s.Update(p, v)
	require.NoError(t, err)
	b := s.Append(nil, p.All())
	assert.Equal(t, 1.0, testing.AllocsPerRun(1000, func() {
		rest, err := b, error(nil)
		for i := range p.NumFields() {
			if rest, err = p.Read(rest, v, i); err != nil {
				t.Error(err)
			}
		}
	}))
	assert.Equal(t, newTwelve(), value)
}

func BenchmarkUpdate(b *testing.B) {
	p, value := compile[twelve](b), newTwelve()
	v := reflect.ValueOf(value).Elem()
	for name, move := range map[string]func(int){"still": func(int) {}, "moving": value.move} {
		b.Run(name, func(b *testing.B) {
			var s state.Shadow
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				move(n)
				if _, err := s.Update(p, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	p, s, value := compile[twelve](b), state.Shadow{}, newTwelve()
	v := reflect.ValueOf(value).Elem()
	if _, err := s.Update(p, v); err != nil {
		b.Fatal(err)
	}
	wire := s.Append(nil, p.All())
	b.ReportAllocs()
	for b.Loop() {
		rest, err := wire, error(nil)
		for i := range p.NumFields() {
			if rest, err = p.Read(rest, v, i); err != nil {
				b.Fatal(err)
			}
		}
	}
}
