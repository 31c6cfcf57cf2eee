package input

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/rpctest"
)

type push struct{ Force int }

func (p push) Validate() error {
	if p.Force > 100 {
		return errors.New("too strong")
	}
	return nil
}

var (
	boxClass = rpc.NewClass("Box")
	pushes   = New[push](boxClass, "Push", 60)
)

// box is the object of a box on either side.
type box struct {
	actor  *rpc.Actor
	queue  Queue[push]
	pushes *Predictor[push]
}

// filled returns a queue that has taken ticks up to 100, and a call that brings it more.
func filled() (*Queue[push], *rpc.Call, time.Time) {
	q, now := new(Queue[push]), time.Unix(0, 0)
	call := &rpc.Call{Now: now, Arrived: now}
	q.receive(pushes, call, batch[push]{})
	q.answerDue = false
	for tick := uint64(1); tick <= 100; tick++ {
		q.Take(now, tick)
	}
	return q, call, now
}

// TestHostileInputs: copies, replays, other inputs for the same tick, and ticks
// from all over the numbers change nothing but counters.
func TestHostileInputs(t *testing.T) {
	q, call, now := filled()
	q.receive(pushes, call, batch[push]{First: 101, Inputs: []push{{1}, {2}, {3}}})
	for range 100 {
		q.receive(pushes, call, batch[push]{First: 101, Inputs: []push{{7}, {8}, {9}}}) // it has changed its mind
	}
	for _, first := range []uint64{0, 1, 40, 101 + 60, 1 << 40, 1 << 63, math.MaxUint64 - maxBatch, math.MaxUint64 - 1, math.MaxUint64} {
		before := q.stats.Outside
		q.receive(pushes, call, batch[push]{First: first, Inputs: make([]push, 1), Seen: first})
		require.Equal(t, before+1, q.stats.Outside, "tick %d", first)
	}
	require.EqualValues(t, 40, q.Seen(), "nobody sees what is not yet")
	for tick := uint64(101); tick <= 103; tick++ {
		in, ok := q.Take(now, tick)
		require.True(t, ok)
		require.Equal(t, int(tick-100), in.Force)
	}
	for range 100 { // replays
		q.receive(pushes, call, batch[push]{First: 101, Inputs: []push{{7}, {8}, {9}}})
	}
	in, ok := q.Take(now, 103)
	require.True(t, ok)
	require.Equal(t, 3, in.Force)
	in, ok = q.Take(now, 104)
	require.False(t, ok)
	require.Equal(t, 3, in.Force, "the newest is repeated")
	require.Equal(t, 1, q.Stats().Repeated)
	require.Zero(t, q.stats.Late)
	q.receive(pushes, call, batch[push]{First: 104, Inputs: []push{{5}}})
	q.receive(pushes, call, batch[push]{First: 104, Inputs: []push{{5}}})
	require.EqualValues(t, 1, q.stats.Late, "once, however many copies come")
	q.answerDue = false
	in, ok = q.Take(now, 1)
	require.False(t, ok, "the server begins anew")
	require.Equal(t, push{}, in)
	in, ok = q.Take(now, math.MaxUint64)
	require.False(t, ok)
	require.Equal(t, push{}, in)
}

// TestTicksGoBack: if ticks go back, the inputs of a tick are available again,
// including those that were too late the first time, and a copy changes nothing.
func TestTicksGoBack(t *testing.T) {
	q, call, now := filled()
	q.receive(pushes, call, batch[push]{First: 101, Inputs: []push{{1}, {2}}})
	for tick := uint64(101); tick <= 105; tick++ {
		q.answerDue = false
		q.Take(now, tick)
	}
	q.receive(pushes, call, batch[push]{First: 104, Seen: 105, Inputs: []push{{4}, {5}, {6}, {7}}})
	margin := q.Stats().Margin
	for i, want := range []push{{1}, {2}, {2}, {4}, {5}, {6}, {7}} {
		q.answerDue = false
		in, ok := q.Take(now, 101+uint64(i))
		require.Equal(t, want, in)
		require.Equal(t, i != 2, ok)
		require.LessOrEqual(t, q.Seen(), 101+uint64(i))
		q.receive(pushes, call, batch[push]{First: 101, Inputs: []push{{8}, {8}}})
	}
	require.Equal(t, margin, q.Stats().Margin, "how early they came is known")
	q.answerDue = false
	in, ok := q.Take(now, 103)
	require.False(t, ok)
	require.Equal(t, push{2}, in, "the newest before that tick")
}

// TestInputsOfTicksLeftOut: an input for a tick that the server did not take is
// counted, once, and is there if ticks go back.
func TestInputsOfTicksLeftOut(t *testing.T) {
	q, call, now := filled()
	q.Take(now, 105)
	for range 3 {
		q.receive(pushes, call, batch[push]{First: 103, Inputs: []push{{3}}})
	}
	require.EqualValues(t, 1, q.Stats().Late)
	q.answerDue = false
	in, ok := q.Take(now, 103)
	require.True(t, ok)
	require.Equal(t, push{3}, in)
}

// TestAnotherOwner: with another owner the queue resets, and inputs of the
// previous one are not applied.
func TestAnotherOwner(t *testing.T) {
	q, call, now := filled()
	q.receive(pushes, call, batch[push]{First: 101, Inputs: []push{{1}, {2}}})
	q.answerDue = false
	q.Take(now, 101)
	q.receive(pushes, &rpc.Call{Conn: new(rpc.Conn), Now: now, Arrived: now}, batch[push]{})
	q.answerDue = false
	in, ok := q.Take(now, 102)
	require.False(t, ok)
	require.Equal(t, push{}, in)
}

// FuzzQueue: no message hurts.
func FuzzQueue(f *testing.F) {
	f.Add(uint64(101), uint64(1), uint64(102), 3)
	f.Add(uint64(math.MaxUint64-63), uint64(math.MaxUint64), uint64(math.MaxUint64), 64)
	f.Add(uint64(161), uint64(100), uint64(200), 10)
	f.Fuzz(func(t *testing.T, first, seen, take uint64, n int) {
		q, call, now := filled()
		q.receive(pushes, call, batch[push]{First: first, Seen: seen, Inputs: make([]push, n&maxBatch-1+1)})
		require.LessOrEqual(t, q.Seen(), uint64(100))
		q.Take(now, 101)
		q.Take(now, take)
		q.receive(pushes, call, batch[push]{First: first, Seen: seen, Inputs: make([]push, 3)})
		q.Take(now, take+1)
		require.Len(t, q.slots, 120)
	})
}

// FuzzPredictor: no answer causes harm. The ticks that Tick passes to read only increase,
// except when predicted time restarts, and a frame never has more than half a second of them.
func FuzzPredictor(f *testing.F) {
	f.Add(uint64(10), uint64(11), uint64(12), int32(5000), uint64(20))
	f.Add(uint64(math.MaxUint64), uint64(math.MaxUint64), uint64(math.MaxUint64), int32(math.MinInt32), uint64(0))
	f.Add(uint64(1)<<62/16666666, uint64(0), uint64(1), int32(math.MaxInt32), uint64(1)<<62/16666667)
	f.Fuzz(func(t *testing.T, taken, have, tick uint64, left int32, again uint64) {
		p := pushes.Predictor(nil)
		now := time.Unix(0, 0)
		frame := func() {
			now = now.Add(17 * time.Millisecond)
			n, begun, last := 0, p.stats.Begun, p.newest
			_ = p.Tick(now, func(tick uint64) push {
				require.True(t, tick > last || begun != p.stats.Begun)
				n, last = n+1, tick
				return push{}
			})
			require.LessOrEqual(t, n, 30)
		}
		hear := func(a answer) {
			if a.Taken <= pushes.maxTick() {
				p.handleAnswer(now.Sub(p.epoch), a, func() time.Duration { return 50 * time.Millisecond })
			}
		}
		frame()
		for range 20 {
			hear(answer{Taken: taken, Have: have, Tick: tick, Left: left})
			frame()
			taken++
			hear(answer{Taken: again, Have: have, Tick: p.newest, Left: left})
			frame()
			for range p.After(tick) {
			}
		}
	})
}

// TestLyingAnswers: a server that says at random how early inputs came moves
// the lead by seconds at most, and never fast.
func TestLyingAnswers(t *testing.T) {
	random := testkit.Rand(t)
	p := pushes.Predictor(nil)
	now := time.Unix(0, 0)
	for range 10_000 {
		now = now.Add(time.Second / 60)
		n := 0
		before := p.lead.ahead
		_ = p.Tick(now, func(uint64) push { n++; return push{} })
		require.LessOrEqual(t, n, 30)
		if p.stats.Tick > 1 {
			require.LessOrEqual(t, (p.lead.ahead - before).Abs(), 6*time.Second)
		}
		taken := uint64(now.Sub(time.Unix(0, 0)) * 60 / time.Second)
		p.handleAnswer(now.Sub(p.epoch), answer{Taken: taken, Have: random.Uint64(), Tick: taken - min(taken, random.Uint64N(10)), Left: int32(random.Uint32())},
			func() time.Duration { return 50 * time.Millisecond })
	}
}

// boxes plays with boxes at the server and so many clients.
func boxes(t *testing.T, clients int, fn func(net *rpctest.Network, server *rpc.Binding[*box], conns []*rpc.Conn, own []*box)) {
	rpctest.Run(t, rpctest.Off, func(t *testing.T, net *rpctest.Network) {
		net.SetTickRate(60)
		made := make(map[*rpc.World]*box)
		world := func(config rpc.Config) (*rpc.World, *rpc.Binding[*box]) {
			w, err := rpc.NewWorld(config)
			require.NoError(t, err)
			b := rpc.Bind(w, boxClass, func(a *rpc.Actor) *box { made[w] = &box{actor: a, pushes: pushes.Predictor(a)}; return made[w] })
			Serve(b, pushes, func(o *box) *Queue[push] { return &o.queue })
			Predict(b, pushes, func(o *box) *Predictor[push] { return o.pushes })
			return w, b
		}
		var served *rpc.Binding[*box]
		server, served := world(rpc.Config{OnConnect: func(_ *rpc.World, c *rpc.Conn) { _, _, _ = rpc.Spawn(served, c, nil) }})
		net.Server(server)
		tick := uint64(0)
		net.OnTick(func(now time.Time) {
			tick++
			for _, o := range served.All() {
				o.queue.Take(now, tick)
			}
		})
		var conns []*rpc.Conn
		var own []*box
		for range clients {
			w, _ := world(rpc.Config{})
			conns = append(conns, net.Client(w))
			net.Advance(time.Second)
			own = append(own, made[w])
		}
		fn(net, served, conns, own)
	})
}

// TestFloodOfInputs: a client that sends hundreds of messages a tick is limited
// to its tick rate, which is counted, and the world continues.
func TestFloodOfInputs(t *testing.T) {
	boxes(t, 2, func(net *rpctest.Network, server *rpc.Binding[*box], conns []*rpc.Conn, own []*box) {
		flood := batch[push]{First: 40, Inputs: make([]push, maxBatch)}
		net.OnTick(func(now time.Time) {
			for range 300 {
				_ = pushes.inputs.Call(own[0].actor, flood)
			}
		})
		net.Advance(5 * time.Second)
		world := server
		for a, o := range world.All() {
			for i, c := range a.World().Conns() {
				if a.Conn() == c && i == 0 {
					require.NotZero(t, c.Stats().Drops.RateLimited)
					require.NoError(t, c.Err())
					require.LessOrEqual(t, o.queue.Stats().Outside, uint64(8*140*maxBatch))
				}
			}
		}
		require.NoError(t, conns[1].Err())
	})
}

// TestInvalidInput: Validate is called for every input, here before it is sent.
func TestInvalidInput(t *testing.T) {
	boxes(t, 1, func(_ *rpctest.Network, _ *rpc.Binding[*box], _ []*rpc.Conn, own []*box) {
		require.ErrorContains(t, pushes.inputs.Call(own[0].actor, batch[push]{First: 7, Inputs: []push{{1}, {101}}}), "input of tick 8: too strong")
		require.ErrorIs(t, pushes.inputs.Call(own[0].actor, batch[push]{Inputs: make([]push, maxBatch+1)}), rpc.ErrTooLong)
	})
}

// TestNewRefuses declarations that make no sense.
func TestNewRefuses(t *testing.T) {
	class := rpc.NewClass("Refused")
	require.Panics(t, func() { New[push](class, "Push", 0) })
	require.Panics(t, func() { New[push](class, "Push", 241) })
	require.Panics(t, func() { New[chan int](class, "Push", 60) })
}

// TestQueueAllocatesNothing: a queue allocates nothing once it has its memory,
// nor does predicted time.
func TestQueueAllocatesNothing(t *testing.T) {
	q, call, now := filled()
	message, tick := batch[push]{First: 101, Inputs: make([]push, 8)}, uint64(101)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		message.First = tick
		q.receive(pushes, call, message)
		q.answerDue = false
		q.Take(now, tick)
		tick++
	}))
}

// TestSeenIsNotFarBack: a client that claims to have seen nothing for ten
// minutes makes the server rewind a second at most.
func TestSeenIsNotFarBack(t *testing.T) {
	q, call, now := filled()
	for tick := uint64(101); tick < 101+60*60*10; tick++ {
		now = now.Add(time.Second / 60)
		call.Arrived = now
		q.receive(pushes, call, batch[push]{First: tick + 1, Seen: 1, Inputs: []push{{1}}})
		q.answerDue = false
		_, _ = q.Take(now, tick)
	}
	require.Equal(t, q.newest-60, q.Seen())
}
