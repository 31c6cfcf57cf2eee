package rpc

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/testkit"
)

// object records what ran on it.
type object struct {
	aims  []vector
	calls []*Call
	err   error
}

func (o *object) aim(call *Call, v vector) {
	o.aims = append(o.aims, v)
	o.calls = append(o.calls, call)
}

func (o *object) mayAim(*Call, vector) error { return o.err }

// bound returns a binding of class without a world.
func bound(class *Class) *Binding[*object] {
	return &Binding[*object]{&binding{
		class:    class,
		handlers: make([]handler, len(class.methods)),
	}, nil}
}

// argument returns what a call carries after its method.
func argument(t testing.TB, m *method, p any) []byte {
	e := codec.NewEncoder()
	defer e.Release()
	require.NoError(t, e.Encode(m.codec, p))
	return bytes.Clone(e.Buf)
}

func TestRemoteCall(t *testing.T) {
	class := NewClass("C")
	aim := Server[vector](class, "Aim", Reliable)
	b := bound(class)
	require.False(t, b.untyped.handles(aim.m), "nothing is bound")
	Check(b, aim, (*object).mayAim)
	require.False(t, b.untyped.handles(aim.m), "a check alone runs nothing")
	On(b, aim, (*object).aim)
	o, call := &object{}, &Call{Actor: &Actor{world: new(World)}}
	remote := b.untyped.handlers[0].runRemote

	require.NoError(t, remote(o, call, encode(t, vector{X: 1})))
	require.Equal(t, []vector{{X: 1}}, o.aims)
	require.Same(t, call, o.calls[0])

	err := remote(o, call, []byte{0x91, 0})
	require.False(t, invalid(err))
	require.ErrorContains(t, err, "rpc: C.Aim: argument of 2 bytes: has 1 element instead of 3")
	require.ErrorContains(t, remote(o, call, append(encode(t, vector{}), 0)), "left over")

	err = remote(o, call, encode(t, vector{X: 2}))
	require.True(t, invalid(err))
	require.EqualError(t, err, "rpc: C.Aim refused: too long")

	o.err = errors.New("not now")
	err = remote(o, call, encode(t, vector{}))
	require.True(t, invalid(err))
	require.ErrorIs(t, err, o.err)
	require.Len(t, o.aims, 1)
}

func TestLocalCall(t *testing.T) {
	class := NewClass("C")
	aim := Multicast[vector](class, "Aim", Reliable)
	b := bound(class)
	On(b, aim, (*object).aim)
	o := &object{}
	b.untyped.handlers[0].runLocal(o, &Call{}, retain(&vector{Y: 1}))
	require.Equal(t, []vector{{Y: 1}}, o.aims)
}

// What a handler keeps stays as it was when the next call arrives.
func TestArgumentsDoNotShareMemory(t *testing.T) {
	type list struct{ Items []string }
	class := NewClass("C")
	h := Server[list](class, "List", Reliable)
	b := bound(class)
	var kept []list
	On(b, h, func(_ *object, _ *Call, l list) { kept = append(kept, l) })
	for _, s := range []string{"a", "b"} {
		require.NoError(t, b.untyped.handlers[0].runRemote(&object{}, nil, encode(t, list{[]string{s}})))
	}
	require.Equal(t, []list{{[]string{"a"}}, {[]string{"b"}}}, kept)
}

// However a call ends, its argument can be freed.
func TestArgumentsAreFreed(t *testing.T) {
	class := NewClass("C")
	h := Server[vector](class, "Aim", Reliable)
	b, o, call := bound(class), &object{}, &Call{Actor: &Actor{world: new(World)}}
	On(b, h, func(_ *object, _ *Call, v vector) {
		if v.Y == 1 {
			panic("in the handler")
		}
	})
	Check(b, h, (*object).mayAim)
	e := b.untyped.handlers[0].(*endpoint[*object, vector])
	require.NoError(t, e.runRemote(o, call, encode(t, vector{X: 1})))
	require.Zero(t, e.arg)
	require.Panics(t, func() { _ = e.runRemote(o, call, encode(t, vector{Y: 1})) })
	require.Zero(t, e.arg, "after a panic")
	require.Error(t, e.runRemote(o, call, append(encode(t, vector{X: 1}), 0)))
	require.Zero(t, e.arg, "after an argument that can't be decoded")
	require.Error(t, e.runRemote(o, call, encode(t, vector{X: 2})))
	require.Zero(t, e.arg, "after Validate")
	o.err = errors.New("not now")
	require.Error(t, e.runRemote(o, call, encode(t, vector{X: 1})))
	require.Zero(t, e.arg, "after Check")
}

func TestSealedIsKeptForLater(t *testing.T) {
	raw := Raw("abc")
	kept := retain(&raw).(Raw)
	raw[0] = 'x'
	require.Equal(t, "abc", string(kept))
}

func TestBindingsThatPanic(t *testing.T) {
	class, other := NewClass("C"), NewClass("Other")
	aim := Server[vector](class, "Aim", Reliable)
	foreign := Server[vector](other, "Aim", Reliable)
	b := bound(class)
	On(b, aim, (*object).aim)
	Check(b, aim, (*object).mayAim)
	panics(t, "On(C.Aim): function already set: call On for it only once", func() { On(b, aim, (*object).aim) })
	panics(t, "Check(C.Aim): function already set: call Check for it only once", func() { Check(b, aim, (*object).mayAim) })
	panics(t, "Other.Aim cannot be bound to *rpc.object as class C: it belongs to class Other", func() { On(b, foreign, (*object).aim) })
	panics(t, "belongs to class Other", func() { Check(b, foreign, (*object).mayAim) })
	panics(t, "On(C.Aim): nil function", func() { On(b, aim, (func(*object, *Call, vector))(nil)) })
	panics(t, "Bind(C): nil constructor", func() { Bind[*object](nil, class, nil) })
	panics(t, "Bind of a nil *Class", func() { Bind[*object](nil, nil, nil) })
}

func TestRemoteCallAllocations(t *testing.T) {
	class := NewClass("C")
	aim := Server[vector](class, "Aim", Reliable)
	self := Server[packed](class, "Self", Reliable)
	raw := Server[Raw](class, "Sealed", Reliable)
	none := Server[None](class, "None", Reliable)
	name := Server[named](class, "Name", Reliable)
	b, o, call := bound(class), &object{}, &Call{Actor: &Actor{world: new(World)}}
	On(b, aim, func(*object, *Call, vector) {})
	Check(b, aim, (*object).mayAim)
	On(b, self, func(*object, *Call, packed) {})
	On(b, raw, func(*object, *Call, Raw) {})
	On(b, none, func(*object, *Call, None) {})
	On(b, name, func(*object, *Call, named) {})
	data := Raw("0123456789")
	for _, test := range []struct {
		m    *method
		p    any
		want float64
	}{
		{aim.m, &vector{1, 2, 3}, 0}, {self.m, &packed{1, 2}, 0}, {raw.m, &data, 0}, {none.m, &None{}, 0},
		{name.m, &named{ID: 500, Name: strings.Repeat("n", 40)}, 1}, // the string
	} {
		payload, remote := argument(t, test.m, test.p), b.untyped.handlers[test.m.id].runRemote
		require.Equal(t, test.want, testkit.Allocs(200, func() {
			if err := remote(o, call, payload); err != nil {
				t.Fatal(err)
			}
		}), "%v", test.m)
	}
}

// What was allocated to look into an error was so for every call without one.
func TestJudgingAllocatesNothing(t *testing.T) {
	var w World
	require.Zero(t, testkit.Allocs(200, func() { _ = w.violationOf(nil, nil, nil) }))
}

func BenchmarkRemoteCall(b *testing.B) {
	class := NewClass("C")
	aim := Server[vector](class, "Aim", Reliable)
	self := Server[packed](class, "Self", Reliable)
	binding, o, call := bound(class), &object{}, &Call{Actor: &Actor{world: new(World)}}
	On(binding, aim, func(*object, *Call, vector) {})
	On(binding, self, func(*object, *Call, packed) {})
	for _, bench := range []struct {
		name string
		m    *method
		p    any
	}{{"msgpack", aim.m, &vector{1, 2, 3}}, {"binary", self.m, &packed{1, 2}}} {
		b.Run(bench.name, func(b *testing.B) {
			payload, remote := argument(b, bench.m, bench.p), binding.untyped.handlers[bench.m.id].runRemote
			b.ReportAllocs()
			for b.Loop() {
				if err := remote(o, call, payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The caller hears of a bad argument before the peer does.
func TestCallValidates(t *testing.T) {
	class := NewClass("C")
	aim := Multicast[vector](class, "Aim", Reliable)
	w, err := NewWorld(Config{Classes: []*Class{class}})
	require.NoError(t, err)
	a := &Actor{world: w, class: class}
	require.NoError(t, aim.Call(a, vector{X: 1}))
	require.EqualError(t, aim.Call(a, vector{X: 2}), "rpc: C.Aim refused: too long")
}
