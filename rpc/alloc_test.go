//go:build !race

package rpc

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/ask"
	"github.com/quivernet/quiver/internal/codec"
	"github.com/quivernet/quiver/internal/testkit"
)

// TestTransmitAllocatesNothing: in the steady state a call encodes into pooled
// memory and its bunch into the machine's. The time is virtual, so that the
// writer has emptied the queue after each round however busy the processors are.
func TestTransmitAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, a := joined(t)
		args := 0
		calls := func() {
			for range 20 {
				args++
				if err := blink.Call(a, args); err != nil {
					t.Fatal(err)
				}
			}
			w.Flush(time.Now())
			time.Sleep(time.Millisecond) // the writer empties the queue
			w.Dispatch(time.Now())
		}
		for range 20 {
			calls()
		}
		require.LessOrEqual(t, testkit.Allocs(50, calls)/20, 0.1)
		require.Zero(t, a.Conn().Stats().Drops.Saturated, "calls leave")
	})
}

// TestOnRepAllocatesNothing: a struct without slices is compared in place.
func TestOnRepAllocatesNothing(t *testing.T) {
	declared := NewState[body](NewClass("Walker")).declared
	ran, object := 0, new(walker)
	bound := &boundState[*walker, body]{declared: declared, where: func(o *walker) *body { return &o.body }}
	bound.onRep = func(*walker, body) { ran++ }
	w, r := newTestWorld(t, Config{}), bound.newReplica(object)
	require.Zero(t, testkit.Allocs(100, func() {
		r.remember()
		r.repNotify(w.World, 0)
		object.body.Target++
		r.repNotify(w.World, 0)
	}))
	require.NotZero(t, ran)
	object.body.X = float32(math.NaN())
	ran = 0
	r.remember()
	r.repNotify(w.World, 0)
	require.Zero(t, ran, "the same bits")
}

// Under the race detector a sync.Pool drops what it is given now and then.
func TestEncodingAllocatesNothing(t *testing.T) {
	class := NewClass("C")
	small := Server[vector](class, "Small", Reliable).m
	self := Server[packed](class, "Self", Reliable).m
	raw := Server[Raw](class, "Sealed", Reliable).m
	none := Server[None](class, "None", Reliable).m
	data := Raw("0123456789")
	for _, test := range []struct {
		m *method
		p any
	}{{small, &vector{1, 2, 3}}, {self, &packed{1, 2}}, {raw, &data}, {none, &None{}}} {
		require.Zero(t, testkit.Allocs(200, func() {
			e := codec.NewEncoder()
			if err := test.m.encode(e, test.p); err != nil {
				t.Fatal(err)
			}
			e.Release()
		}), "%v", test.m)
	}
}

// A Multicast to a connection that has just closed does all of a call but the sending.
func TestCallAllocatesNothing(t *testing.T) {
	class := NewClass("C")
	small := Multicast[vector](class, "Small", Reliable)
	self := Multicast[packed](class, "Self", Reliable)
	raw := Multicast[Raw](class, "Sealed", Reliable)
	none := Multicast[None](class, "None", Reliable)
	w, err := NewWorld(Config{Classes: []*Class{class}})
	require.NoError(t, err)
	closed := &Conn{}
	closed.life.closing.Store(true)
	a := &Actor{world: w, class: class, openings: []*opening{{conn: closed, channel: 2}}}
	data := Raw("0123456789")
	require.NoError(t, small.Call(a, vector{1, 2, 3}))
	require.Zero(t, testkit.Allocs(200, func() {
		_ = small.Call(a, vector{1, 2, 3})
		_ = self.Call(a, packed{1, 2})
		_ = raw.Call(a, data)
		_ = none.Call(a, None{})
	}))
}

// TestRelevancyAllocatesNothing: while nothing opens or closes.
func TestRelevancyAllocatesNothing(t *testing.T) {
	w := newWoods(t, 2000, 10)
	require.Greater(t, w.open(), 100)
	require.LessOrEqual(t, testkit.Allocs(30, w.step), 0.1)
}

// TestRequestsAllocateLittle: an answer that is given at once allocates nothing. The
// asker allocates the question, the function for the answer, and the answer itself.
func TestRequestsAllocateLittle(t *testing.T) {
	withClerk(t, Config{}, func(n *network, here, there *Actor) {
		c, number := n.conns[0], uint64(0)
		from := n.ends[0]
		there.openings = nil // what is said goes nowhere
		delete(c.shown.openings, here)
		b := make([]byte, 0, 64)
		require.Zero(t, testkit.Allocs(200, func() {
			number++
			b = append(ask.AppendQuestion(b[:0], number), 0)
			if violation := n.server.invokeRequest(c, here, clerkAsk.question, b); violation != nil {
				t.Fatal(violation)
			}
		}))
		q := inquiry{}
		h := typedHandler[string]{m: clerkAsk.answer, then: func(string, error) {}}
		hears := testkit.Allocs(200, func() {
			q = inquiry{actor: there, method: clerkAsk.question, conn: from, handler: &h}
			q.number, _ = q.table().Add(&q, time.Now())
			b = append(ask.AppendAnswer(b[:0], q.number, ask.Answered), 0xa1, 'x')
			if violation := n.clients[0].invokeRequest(from, there, clerkAsk.answer, b); violation != nil {
				t.Fatal(violation)
			}
		})
		require.LessOrEqual(t, hears, 1.0, "the string of the answer")
		require.Zero(t, from.requests.asked.Len())
	})
}
