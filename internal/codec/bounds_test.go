package codec

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limited has bounds of every kind.
type limited struct {
	Text   string            `quiver:"max=4"`
	Bytes  []byte            `quiver:"max=4"`
	List   []int             `quiver:"max=2"`
	Lists  [2][]*string      `quiver:"max=3,each=2"`
	Table  map[string]string `quiver:"max=2,key=3,each=4"`
	Own    sizedOwn
	Tight  sizedText `quiver:"max=2"`
	Few    []item    `quiver:"max=1"`
	Heavy  heavy
	Scales map[float64]int
}

type item struct {
	Name string `quiver:"max=3"`
}

// heavy knows how large it may be as a whole.
type heavy struct {
	A, B string
}

func (heavy) MaxEncodedSize() int { return 10 }

// selfish writes itself and knows how large it may be.
type selfish struct{ b []byte }

func (selfish) MaxEncodedSize() int                     { return 3 }
func (s selfish) AppendBinary(b []byte) ([]byte, error) { return append(b, s.b...), nil }
func (s *selfish) UnmarshalBinary(b []byte) error       { s.b = append(s.b[:0], b...); return nil }

// short is a text of which MaxEncodedSize counts the bytes alone, as a tag does.
type short string

func (short) MaxEncodedSize() int { return 3 }

// beyond are values that may not travel, each with why, and one beside it that just may.
var beyond = []struct {
	bad, good any
	want      string
}{
	{&limited{Text: "fives"}, &limited{Text: "four"}, "Text: has 5 bytes; the limit is 4"},
	{&limited{Text: "äää"}, &limited{Text: "ää"}, "Text: has 6 bytes; the limit is 4"},
	{&limited{Bytes: make([]byte, 5)}, &limited{Bytes: make([]byte, 4)}, "Bytes: has 5 bytes; the limit is 4"},
	{&limited{List: make([]int, 3)}, &limited{List: make([]int, 2)}, "List: has 3 elements; the limit is 2"},
	{&limited{Lists: lists("two", 1)}, &limited{Lists: lists("tw", 3)}, "Lists: element 1: element 0: has 3 bytes; the limit is 2"},
	{&limited{Lists: lists("", 4)}, &limited{Lists: lists("", 3)}, "Lists: element 1: has 4 elements; the limit is 3"},
	{&limited{Table: map[string]string{"": "", "a": "", "b": ""}}, &limited{Table: map[string]string{"abc": "abcd", "b": ""}}, "Table: has 3 entries; the limit is 2"},
	{&limited{Table: map[string]string{"four": ""}}, &limited{}, "Table: key 0: has 4 bytes; the limit is 3"},
	{&limited{Table: map[string]string{"a": "fives"}}, &limited{}, "Table: value 0: has 5 bytes; the limit is 4"},
	{&limited{Own: sizedOwn{-1}}, &limited{Own: sizedOwn{0}}, "Own: has 91 bytes; the limit is 90"},
	{&limited{Tight: sizedText{"abc"}}, &limited{Tight: sizedText{"ab"}}, "Tight: has 3 bytes; the limit is 2"},
	{&limited{Few: []item{{"four"}}}, &limited{Few: []item{{"abc"}}}, "Few: element 0: Name: has 4 bytes; the limit is 3"},
	{&limited{Heavy: heavy{"1234", "5678"}}, &limited{Heavy: heavy{"1234", "567"}}, "Heavy: has 11 bytes encoded; the limit is 10"},
	{&limited{Scales: map[float64]int{math.NaN(): 1}}, &limited{Scales: map[float64]int{math.Inf(1): 1}}, "Scales: key 0: map key is NaN"},
	{&selfish{make([]byte, 4)}, &selfish{make([]byte, 3)}, "has 4 bytes; the limit is 3"},
	{ptr(short("four")), ptr(short("abc")), "has 4 bytes; the limit is 3"},
	{&named{Name: "\xc3\x28"}, &named{Name: "ü\x00\u2028"}, "Name: string is not valid UTF-8"},
	{&map[string]int{"\xff": 1}, &map[string]int{"": 1}, "key 0: string is not valid UTF-8"},
	{nested(70), nested(20), "value is nested deeper than 64 levels"},
}

func ptr[T any](v T) *T { return &v }

func lists(s string, n int) (l [2][]*string) {
	for range n {
		l[1] = append(l[1], &s)
	}
	return l
}

func nested(n int) *tree {
	t := &tree{}
	for range n {
		t = &tree{Next: t}
	}
	return t
}

func TestSendersCheckBounds(t *testing.T) {
	for _, test := range beyond {
		_, err := put(test.bad)
		require.ErrorContains(t, err, test.want)
		_, err = put(test.good)
		require.NoError(t, err, test.want)
	}
	_, err := put(&limited{Text: "fives"})
	require.ErrorIs(t, err, ErrTooLong)
}

// What a sender that checks nothing would write.
func TestReceiversCheckBounds(t *testing.T) {
	for _, test := range beyond {
		typ := reflect.TypeOf(test.bad).Elem()
		c, err := Of(typ)
		require.NoError(t, err)
		unchecked := *c
		unchecked.refusable = false
		for _, v := range []any{test.bad, test.good} {
			e := NewEncoder()
			require.NoError(t, e.Encode(&unchecked, v))
			err = c.Decode(e.Buf, reflect.New(typ).Interface())
			if v == test.good {
				require.NoError(t, err, test.want)
			} else {
				require.ErrorContains(t, err, test.want)
			}
			e.Release()
		}
	}
}

func TestMapsWithAKeyTwiceAreRefused(t *testing.T) {
	_, _, err := take([]byte("\x82\xa1a\x01\xa1a\x02"), new(map[string]int))
	require.ErrorContains(t, err, "map of 2 entries has only 1 distinct key")
}

func TestTypesThatTakeEveryValueAreNotChecked(t *testing.T) {
	for typ, want := range map[reflect.Type]bool{
		reflect.TypeFor[vector](): false, reflect.TypeFor[packed](): false, reflect.TypeFor[map[int][]vector](): false,
		reflect.TypeFor[struct{ F map[int]float64 }](): false, reflect.TypeFor[selfish](): true, reflect.TypeFor[tree](): true,
		reflect.TypeFor[struct{ F map[[1]float32]int }](): true, reflect.TypeFor[[]string](): true, reflect.TypeFor[Raw](): false,
	} {
		c, err := Of(typ)
		require.NoError(t, err)
		require.Equal(t, want, c.refusable, "%v", typ)
	}
}

func TestBoundsArePartOfTheShape(t *testing.T) {
	type wider struct {
		Name string `quiver:"max=9"`
	}
	type narrower struct {
		Name string `quiver:"max=8"`
	}
	shape := func(typ reflect.Type) [32]byte {
		c, err := Of(typ)
		require.NoError(t, err)
		return c.Shape()
	}
	require.NotEqual(t, shape(reflect.TypeFor[wider]()), shape(reflect.TypeFor[narrower]()))
	require.Equal(t, shape(reflect.TypeFor[narrower]()), shape(reflect.TypeFor[struct {
		Name string `quiver:"max=8"`
	}]()), "what a type is called does not matter")
}

// TestBoundsPassOverArrays: the tags that the documentation of rpc shows for
// arrays mean what it says.
func TestBoundsPassOverArrays(t *testing.T) {
	type page struct {
		Team  [3]string   `quiver:"max=2"`
		Lines [3][]string `quiver:"max=1,each=3"`
	}
	c, err := Of(reflect.TypeFor[page]())
	require.NoError(t, err)
	for want, p := range map[string]*page{
		"Team: element 2: has 3 bytes; the limit is 2":             {Team: [3]string{2: "abc"}},
		"Lines: element 1: has 2 elements; the limit is 1":         {Lines: [3][]string{1: {"", ""}}},
		"Lines: element 1: element 0: has 4 bytes; the limit is 3": {Lines: [3][]string{1: {"abcd"}}},
	} {
		_, err := c.Append(nil, p)
		require.ErrorContains(t, err, want)
	}
	_, err = c.Append(nil, &page{[3]string{"ab"}, [3][]string{{"abc"}}})
	require.NoError(t, err)
}

// TestTimeKeepsWhatTheDocumentationSays: alone it keeps the offset of its zone,
// inside of others the instant.
func TestTimeKeepsWhatTheDocumentationSays(t *testing.T) {
	sent := time.Date(2020, 1, 2, 3, 4, 5, 6, time.FixedZone("X", 3600+int(time.Minute/time.Second)))
	var alone time.Time
	var within struct{ T time.Time }
	transfer(t, &sent, &alone)
	transfer(t, &struct{ T time.Time }{sent}, &within)
	_, offset := alone.Zone()
	require.Equal(t, 3660, offset)
	require.True(t, sent.Equal(alone) && sent.Equal(within.T))
	require.Equal(t, time.Local, within.T.Location())
	for _, sent := range []time.Time{time.Unix(1<<30, 0), time.Unix(-1, 7)} { // in 4 and in 12 bytes
		var within [2]struct{ T time.Time }
		transfer(t, &[2]struct{ T time.Time }{{sent}, {sent}}, &within)
		require.Equal(t, sent, within[0].T)
		require.Equal(t, sent, within[1].T)
	}
}

// transfer appends the value at from and reads it into the one at to.
func transfer(t *testing.T, from, to any) {
	c, err := Of(reflect.TypeOf(to).Elem())
	require.NoError(t, err)
	b, err := c.Append(nil, from)
	require.NoError(t, err)
	_, _, err = c.Next(b, to)
	require.NoError(t, err)
}

// TestShapeIsTheSameOnEveryArchitecture: an end of 32 bits, where an int is one
// of them, and an end of 64 connect.
func TestShapeIsTheSameOnEveryArchitecture(t *testing.T) {
	c, err := Of(reflect.TypeFor[struct {
		A int
		B uint
	}]())
	require.NoError(t, err)
	require.Equal(t, "9e125ce906a42f87ba9b97fe651ebe83143a779c5cc12e8e320c6a429767fd55", fmt.Sprintf("%x", c.Shape()))
}
