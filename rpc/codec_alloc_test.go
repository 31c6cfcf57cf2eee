//go:build !race

package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Under the race detector a sync.Pool drops what it is given now and then.
func TestEncodingAllocatesNothing(t *testing.T) {
	class := NewClass("C")
	small := Server[vector](class, "Small", Reliable).m
	self := Server[packed](class, "Self", Reliable).m
	raw := Server[Raw](class, "Raw", Reliable).m
	none := Server[None](class, "None", Reliable).m
	data := Raw("0123456789")
	for _, test := range []struct {
		m *method
		p any
	}{{small, &vector{1, 2, 3}}, {self, &packed{1, 2}}, {raw, &data}, {none, &None{}}} {
		require.Zero(t, testing.AllocsPerRun(200, func() {
			e := getEncoder()
			if err := e.call(test.m, test.p); err != nil {
				t.Fatal(err)
			}
			e.release()
		}), "%v", test.m)
	}
}

// A Multicast to a connection that has just closed does all of a call but the sending.
func TestCallAllocatesNothing(t *testing.T) {
	class := NewClass("C")
	small := Multicast[vector](class, "Small", Reliable)
	self := Multicast[packed](class, "Self", Reliable)
	raw := Multicast[Raw](class, "Raw", Reliable)
	none := Multicast[None](class, "None", Reliable)
	w, err := NewWorld(Config{Classes: []*Class{class}})
	require.NoError(t, err)
	closed := &Conn{}
	closed.closing.Store(true)
	a := &Actor{world: w, class: class, opens: []opening{{conn: closed, channel: 2}}}
	data := Raw("0123456789")
	require.NoError(t, small.Call(a, vector{1, 2, 3}))
	require.Zero(t, testing.AllocsPerRun(200, func() {
		_ = small.Call(a, vector{1, 2, 3})
		_ = self.Call(a, packed{1, 2})
		_ = raw.Call(a, data)
		_ = none.Call(a, None{})
	}))
}
