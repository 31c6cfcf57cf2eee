package rpc

import (
	"math"
	"reflect"
	"testing"

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

// beyond are values that may not travel, each with why, and one beside it that just may.
var beyond = []struct {
	bad, good any
	want      string
}{
	{&limited{Text: "fives"}, &limited{Text: "four"}, "Text: it holds 5 bytes, its bound is 4"},
	{&limited{Text: "äää"}, &limited{Text: "ää"}, "Text: it holds 6 bytes, its bound is 4"},
	{&limited{Bytes: make([]byte, 5)}, &limited{Bytes: make([]byte, 4)}, "Bytes: it holds 5 bytes, its bound is 4"},
	{&limited{List: make([]int, 3)}, &limited{List: make([]int, 2)}, "List: it holds 3 elements, its bound is 2"},
	{&limited{Lists: lists("two", 1)}, &limited{Lists: lists("tw", 3)}, "Lists: element 1: element 0: it holds 3 bytes, its bound is 2"},
	{&limited{Lists: lists("", 4)}, &limited{Lists: lists("", 3)}, "Lists: element 1: it holds 4 elements, its bound is 3"},
	{&limited{Table: map[string]string{"": "", "a": "", "b": ""}}, &limited{Table: map[string]string{"abc": "abcd", "b": ""}}, "Table: it holds 3 entries, its bound is 2"},
	{&limited{Table: map[string]string{"four": ""}}, &limited{}, "Table: key 0: it holds 4 bytes, its bound is 3"},
	{&limited{Table: map[string]string{"a": "fives"}}, &limited{}, "Table: value 0: it holds 5 bytes, its bound is 4"},
	{&limited{Own: sizedOwn{-1}}, &limited{Own: sizedOwn{0}}, "Own: it holds 91 bytes, its bound is 90"},
	{&limited{Tight: sizedText{"abc"}}, &limited{Tight: sizedText{"ab"}}, "Tight: it holds 3 bytes, its bound is 2"},
	{&limited{Few: []item{{"four"}}}, &limited{Few: []item{{"abc"}}}, "Few: element 0: Name: it holds 4 bytes, its bound is 3"},
	{&limited{Heavy: heavy{"1234", "5678"}}, &limited{Heavy: heavy{"1234", "567"}}, "Heavy: it holds 11 bytes encoded, its bound is 10"},
	{&limited{Scales: map[float64]int{math.NaN(): 1}}, &limited{Scales: map[float64]int{math.Inf(1): 1}}, "Scales: key 0: it is NaN"},
	{&selfish{make([]byte, 4)}, &selfish{make([]byte, 3)}, "it holds 4 bytes, its bound is 3"},
	{&named{Name: "\xc3\x28"}, &named{Name: "ü\x00\u2028"}, "Name: it is not valid UTF-8"},
	{&map[string]int{"\xff": 1}, &map[string]int{"": 1}, "key 0: it is not valid UTF-8"},
	{nested(70), nested(20), "it is nested deeper than 64"},
}

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
		_, err := AppendValue(nil, test.bad)
		require.ErrorContains(t, err, test.want)
		_, err = AppendValue(nil, test.good)
		require.NoError(t, err, test.want)
	}
	_, err := AppendValue(nil, &limited{Text: "fives"})
	require.ErrorIs(t, err, ErrTooLong)
}

// What a sender that checks nothing would write.
func TestReceiversCheckBounds(t *testing.T) {
	for _, test := range beyond {
		typ := reflect.TypeOf(test.bad).Elem()
		c, err := codecOf(typ)
		require.NoError(t, err)
		unchecked := *c
		unchecked.picky = false
		for _, v := range []any{test.bad, test.good} {
			e := getEncoder()
			require.NoError(t, e.value(&unchecked, v))
			err = c.decode(e.buf, reflect.New(typ).Interface())
			if v == test.good {
				require.NoError(t, err, test.want)
			} else {
				require.ErrorContains(t, err, test.want)
			}
			e.release()
		}
	}
}

func TestMapsWithAKeyTwiceAreRefused(t *testing.T) {
	_, err := DecodeValue([]byte("\x82\xa1a\x01\xa1a\x02"), new(map[string]int))
	require.ErrorContains(t, err, "a map of 2 entries holds only 1 keys")
}

func TestTypesThatTakeEveryValueAreNotChecked(t *testing.T) {
	for typ, want := range map[reflect.Type]bool{
		reflect.TypeFor[vector](): false, reflect.TypeFor[packed](): false, reflect.TypeFor[map[int][]vector](): false,
		reflect.TypeFor[struct{ F map[int]float64 }](): false, reflect.TypeFor[selfish](): true, reflect.TypeFor[tree](): true,
		reflect.TypeFor[struct{ F map[[1]float32]int }](): true, reflect.TypeFor[[]string](): true, reflect.TypeFor[Raw](): false,
	} {
		c, err := codecOf(typ)
		require.NoError(t, err)
		require.Equal(t, want, c.picky, "%v", typ)
	}
}

// An argument beyond its bound is an error at the call: nothing is sent, wherever it would have run.
func TestCallsOverABoundAreRefused(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.spawn(0)
		mirror := n.mirror(0, a)
		for _, at := range []*Actor{mirror, a} { // the server's own call runs where it is made
			err := title.Call(at, callsign{Name: "ninebytes"})
			require.ErrorIs(t, err, ErrTooLong)
			require.EqualError(t, err, "rpc: Hero.Title: argument rpc.callsign: Name: it holds 9 bytes, its bound is 8 (quiver tag or MaxEncodedSize): rpc: longer than its bound")
			require.ErrorContains(t, title.Call(at, callsign{Known: []string{"", "fiveb"}}), "Known: element 1: it holds 5 bytes, its bound is 4")
			require.ErrorContains(t, shout.Call(at, "\xff"), "rpc: Hero.Shout: argument string: it is not valid UTF-8")
			require.NoError(t, title.Call(at, callsign{Name: "eight by", Known: []string{"four", "ok"}}))
		}
		n.tick(3)
		require.Equal(t, []string{"title eight by", "title eight by"}, n.server.take())
		require.True(t, n.conns[0].usable())
	})
}

// Ends with different bounds do not connect, and say where they differ.
func TestBoundsArePartOfTheShape(t *testing.T) {
	type wider struct {
		Name string `quiver:"max=9"`
	}
	type narrower struct {
		Name string `quiver:"max=8"`
	}
	_, wide := shapeOf([]*Class{playerClass[wider](Reliable, "Fire")})
	_, narrow := shapeOf([]*Class{playerClass[narrower](Reliable, "Fire")})
	require.Equal(t, `Player.Fire.Name is "string, max 9" at the client and "string, max 8" at the server`, diffShape(wide, narrow))

	first, err := EncodingOf(reflect.TypeFor[wider]())
	require.NoError(t, err)
	second, err := EncodingOf(reflect.TypeFor[narrower]())
	require.NoError(t, err)
	require.NotEqual(t, first.Shape, second.Shape)
	same, err := EncodingOf(reflect.TypeFor[struct {
		Name string `quiver:"max=8"`
	}]())
	require.NoError(t, err)
	require.Equal(t, second, same, "what a type is called does not matter")
}
