package rpc

import (
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/shape"
)

type vector struct{ X, Y, Z float32 }

// Validate is on the value.
func (v vector) Validate() error {
	if v.X > 1 {
		return errors.New("too long")
	}
	return nil
}

type named struct {
	ID   uint16
	Name string
}

// packed writes itself.
type packed struct{ a, b uint32 }

func (p packed) AppendBinary(b []byte) ([]byte, error) {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, p.a), p.b), nil
}

func (p *packed) UnmarshalBinary(b []byte) error {
	if len(b) != 8 {
		return errors.New("packed takes 8 bytes")
	}
	p.a, p.b = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	return nil
}

type tree struct {
	Value int
	Kids  []tree
	Next  *tree
}

func encode(t testing.TB, v any) []byte {
	p := reflect.New(reflect.TypeOf(v))
	p.Elem().Set(reflect.ValueOf(v))
	c, err := codec.Of(reflect.TypeOf(v))
	require.NoError(t, err)
	b, err := c.Append(nil, p.Interface())
	require.NoError(t, err)
	return b
}

// What only this package can refuse, because only here are actors known.
func TestActorsCanNotTravel(t *testing.T) {
	for _, test := range []struct {
		typ  reflect.Type
		want string
	}{
		{reflect.TypeFor[Actor](), "rpc.Actor: an actor cannot be encoded"},
		{reflect.TypeFor[struct{ Target *Actor }](), ".Target: an actor cannot be encoded: send a number"},
		{reflect.TypeFor[struct{ In struct{ Targets []*Actor } }](), ".In.Targets[]: an actor cannot be encoded"},
		{reflect.TypeFor[map[string][2]*Actor](), "[value][]: an actor cannot be encoded"},
		{reflect.TypeFor[struct{ Actor }](), ".Actor: an actor cannot be encoded"},
		{reflect.TypeFor[struct{ C *Conn }](), ".C: rpc.Conn has no encoded fields"},
	} {
		_, err := codec.Of(test.typ)
		require.ErrorContains(t, err, test.want, "%v", test.typ)
	}
}

// An argument beyond its bound is an error at the call: nothing is sent,
// wherever it would have run.
func TestCallsOverABoundAreRefused(t *testing.T) {
	inNet(t, 1, Config{}, func(n *network) {
		a := n.spawn(0)
		mirror := n.mirror(0, a)
		for _, at := range []*Actor{mirror, a} { // the server's own call runs where it is made
			err := title.Call(at, callsign{Name: "ninebytes"})
			require.ErrorIs(t, err, ErrTooLong)
			require.EqualError(t, err, "rpc: Hero.Title: argument rpc.callsign: Name: has 9 bytes; the limit is 8 (quiver tag or MaxEncodedSize): rpc: value too long")
			require.ErrorContains(t, title.Call(at, callsign{Known: []string{"", "fiveb"}}), "Known: element 1: has 5 bytes; the limit is 4")
			require.ErrorContains(t, shout.Call(at, "\xff"), "rpc: Hero.Shout: argument string: string is not valid UTF-8")
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
	wide := shapeOf([]*Class{playerClass[wider](Reliable, "Fire")})
	narrow := shapeOf([]*Class{playerClass[narrower](Reliable, "Fire")})
	require.Equal(t, `Player.Fire.Name is "string, max 9" at the client and "string, max 8" at the server`, shape.Difference(wide.Lines, narrow.Lines, false))
}

func BenchmarkEncode(b *testing.B) {
	m := Server[vector](NewClass("C"), "M", Reliable).m
	v := vector{1, 2, 3}
	b.ReportAllocs()
	for b.Loop() {
		e := codec.NewEncoder()
		if err := m.encode(e, &v); err != nil {
			b.Fatal(err)
		}
		e.Release()
	}
}
