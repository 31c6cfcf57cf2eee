package state_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/state"
)

// TestFields holds what is known of the fields of a state with every kind of condition.
func TestFields(t *testing.T) {
	type conditions struct {
		All     uint8
		Mine    uint8     `quiver:"owner"`
		Theirs  [2]Ref    `quiver:"skipowner"`
		Once    string    `quiver:"max=5, initial"`
		Some    float32   `quiver:"if=spectator,quant=0.5"`
		Vectors [2]vector `quiver:"quant=0.25"`
		_       struct{}
		Embedded
	}
	p := compile[conditions](t)
	var fields []state.Field
	for i := range p.NumFields() {
		fields = append(fields, p.Field(i))
	}
	assert.Equal(t, []state.Field{
		{Name: "All"},
		{Name: "Mine", Condition: state.Owner},
		{Name: "Theirs", Condition: state.SkipOwner, Reference: true},
		{Name: "Once", Condition: state.Initial},
		{Name: "Some", Condition: state.Custom, Custom: "spectator"},
		{Name: "Vectors"},
		{Name: "Embedded"},
	}, fields)
	assert.Equal(t, []string{
		"All: uint8",
		"Mine: uint8, owner",
		"Theirs: [2](reference), skipowner",
		"Once: string, max 5, initial",
		`Some: float32, quant 0.5, if "spectator"`,
		"Vectors: [2](struct{X: float32, quant 0.25; Y: float32, quant 0.25; Z: float32, quant 0.25})",
		"Embedded: struct{A: uint16; B: uint16}",
	}, p.Lines())
	assert.Equal(t, state.Mask(0x7f), p.All())
	assert.Equal(t, []string{"none", "owner", "skipowner", "initial", "if", "unknown"},
		[]string{state.None.String(), state.Owner.String(), state.SkipOwner.String(), state.Initial.String(), state.Custom.String(), state.Condition(9).String()})
}

// TestTagsInside holds which of two tags counts for a number.
func TestTagsInside(t *testing.T) {
	type inner struct {
		Near  float32 `quiver:"quant=0.5"`
		Floor int     `quiver:"range=0:9"`
		Far   float32
		Count int
	}
	type outer struct {
		Plain  inner
		Coarse inner                      `quiver:"quant=2"`
		Ranged inner                      `quiver:"range=0:300"`
		Both   inner                      `quiver:"quant=2,range=0:300"`
		Deep   [2][2]float32              `quiver:"quant=2"`
		Normal struct{ Direction vector } `quiver:"quant=2"`
	}
	assert.Equal(t, []string{
		"Plain: struct{Near: float32, quant 0.5; Floor: int, range 0:9; Far: float32; Count: int}",
		"Coarse: struct{Near: float32, quant 0.5; Floor: int, range 0:9; Far: float32, quant 2; Count: int}",
		"Ranged: struct{Near: float32, quant 0.5; Floor: int, range 0:9; Far: float32; Count: int, range 0:300}",
		"Both: struct{Near: float32, quant 0.5; Floor: int, range 0:9; Far: float32, quant 2, range 0:150 quanta; Count: int}",
		"Deep: [2]([2](float32, quant 2))",
		"Normal: struct{Direction: struct{X: float32, quant 2; Y: float32, quant 2; Z: float32, quant 2}}",
	}, compile[outer](t).Lines())
}

func TestReferences(t *testing.T) {
	type party struct {
		Name    string `quiver:"max=9"`
		Leader  Ref
		Members []Ref `quiver:"max=4"`
		Pairs   [2]struct {
			HP int
			Of Ref
		}
		ID uint64
	}
	p, value := compile[party](t), party{Leader: 7, Members: []Ref{1, 0, 2}, ID: 99}
	value.Pairs[1].Of = 5
	var met []uint64
	p.References(reflect.ValueOf(value), func(id uint64) { met = append(met, id) })
	assert.Equal(t, []uint64{7, 1, 2, 5}, met)

	without, err := state.Compile(reflect.TypeFor[party](), nil)
	require.NoError(t, err)
	without.References(reflect.ValueOf(value), func(uint64) { t.Error("without a type of references there are none") })
}

func TestComparable(t *testing.T) {
	assert.True(t, compile[twelve](t).Comparable())
	assert.False(t, compile[rich](t).Comparable())
	assert.False(t, compile[struct {
		A [2]struct {
			B []int `quiver:"max=2"`
		}
	}](t).Comparable())
}

// TestReadSharesNothing changes the bytes and the value from which a second value was made.
func TestReadSharesNothing(t *testing.T) {
	type shared struct {
		Name  string   `quiver:"max=9"`
		Bytes []byte   `quiver:"max=9"`
		Tags  []string `quiver:"max=9,each=9"`
	}
	p, value := compile[shared](t), shared{Name: "ann", Bytes: []byte("abc"), Tags: []string{"x", "y"}}
	v := reflect.ValueOf(&value).Elem()
	var b []byte
	for i := range p.NumFields() {
		b, _ = p.Append(b, v, i)
	}
	old := value
	for i := range p.NumFields() {
		var err error
		b, err = p.Read(b, v, i)
		require.NoError(t, err)
	}
	clear(b[:cap(b)])
	value.Bytes[0], value.Tags[0] = 'z', "z"
	assert.Equal(t, shared{Name: "ann", Bytes: []byte("abc"), Tags: []string{"x", "y"}}, old)
	assert.Equal(t, "ann", value.Name)
}
