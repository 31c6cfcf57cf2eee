package rpc

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/link/linktest"
)

// underRun joins two worlds that wait for events, and returns the client's end. end closes both.
func underRun(t *testing.T, server, client *testWorld) (ctx context.Context, conn *Conn, end func()) {
	near, far := linktest.Pipe()
	near.SetDelay(testDelay)
	far.SetDelay(testDelay)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx) })
	running.Go(func() { _ = client.Run(ctx) })
	_, err := server.Attach(plug{far})
	require.NoError(t, err)
	conn, err = client.Connect(ctx, plug{near})
	require.NoError(t, err)
	time.Sleep(time.Second)
	return ctx, conn, func() {
		require.NoError(t, client.World.Close(ctx, 0, "end"))
		require.NoError(t, server.World.Close(ctx, 0, "end"))
		time.Sleep(3 * time.Second)
		cancel()
		running.Wait() // what the worlds noted is the test's from here on
	}
}

// spawnUnderRun is underRun with an actor of the client's, and returns when all is quiet.
func spawnUnderRun[T any](t *testing.T, server, client *testWorld, here *Binding[T]) (ctx context.Context, a *Actor, object T, end func()) {
	ctx, _, end = underRun(t, server, client)
	require.NoError(t, server.Do(ctx, func() {
		var err error
		a, object, err = Spawn(here, server.joined[0], nil)
		require.NoError(t, err)
	}))
	time.Sleep(2 * time.Second)
	return ctx, a, object, end
}

// TestThenIsToldWhenItsWorldCloses: a question that a world asks itself ends
// with the world, and Then's function is called.
func TestThenIsToldWhenItsWorldCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTestWorld(t, Config{Classes: []*Class{clerk}})
		b := Bind(server.World, clerk, func(*Actor) *clerkObject { return new(clerkObject) })
		OnRequest(b, clerkAsk, func(o *clerkObject, call *Call, n int) (string, error) {
			clerkAsk.Later(call)
			return "", nil
		})
		ended := make(chan error, 1)
		go func() { ended <- server.Run(t.Context()) }()
		told := 0
		require.NoError(t, server.Do(t.Context(), func() {
			a, err := server.Spawn(clerk, nil)
			require.NoError(t, err)
			require.NoError(t, clerkAsk.Then(a, 1, func(_ string, err error) { told++ }))
		}))
		time.Sleep(time.Second)
		require.NoError(t, server.World.Close(t.Context(), 0, "end"))
		require.ErrorIs(t, <-ended, ErrClosed)
		require.Equal(t, 1, told, "Then has its function called once, with the answer or the error")
	})
}

// withHero has a server and a client under Run, with an actor of the client's. play
// runs when all is quiet; a minute later the client has to have the text want.
func withHero(t *testing.T, class *Class, want string, play func(ctx context.Context, server *testWorld, a *Actor, p *puppet)) {
	synctest.Test(t, func(t *testing.T) {
		labels := NewState[label](class)
		bind := func(w *World) *Binding[*puppet] {
			b := Bind(w, class, func(*Actor) *puppet { return new(puppet) })
			Replicate(b, labels, func(p *puppet) *label { return &p.label })
			return b
		}
		server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
		here, there := bind(server.World), bind(client.World)
		ctx, a, p, end := spawnUnderRun(t, server, client, here)
		play(ctx, server, a, p)
		time.Sleep(time.Minute)
		text := ""
		require.NoError(t, client.Do(ctx, func() {
			copied, ok := there.At(a.Ref())
			require.True(t, ok)
			text = copied.label.Text
		}))
		end()
		require.Equal(t, want, text, "a minute later")
	})
}

// TestOpenAckedUnderRun: OnOpenAcked runs even if nothing but the ack arrives.
func TestOpenAckedUnderRun(t *testing.T) {
	withHero(t, NewClass("SeenHero"), "", func(ctx context.Context, server *testWorld, _ *Actor, _ *puppet) {
		time.Sleep(time.Second)
		told := 0
		require.NoError(t, server.Do(ctx, func() {
			OnOpenAcked(server.binding, func(*puppet, *Conn) { told++ })
			_, err := server.Spawn(hero, server.joined[0])
			require.NoError(t, err)
		}))
		time.Sleep(time.Second)
		require.NoError(t, server.Do(ctx, func() { require.Equal(t, 1, told) }))
	})
}

// TestStateThatWasNotDueUnderRun: a change that a Flush does not compare
// because of UpdateRate is sent when it is due, even if nothing else happens.
func TestStateThatWasNotDueUnderRun(t *testing.T) {
	withHero(t, NewClass("SlowHero", UpdateRate(2)), "two", func(ctx context.Context, server *testWorld, _ *Actor, p *puppet) {
		for _, text := range []string{"one", "two"} { // 200 ms apart: the second is not due yet
			require.NoError(t, server.Do(ctx, func() { p.label.Text = text }))
			time.Sleep(200 * time.Millisecond)
		}
	})
}

// TestStateThatAHookChangesUnderRun: a change that an OnTick hook makes between
// two updates is sent when it is due, even if nothing else happens.
func TestStateThatAHookChangesUnderRun(t *testing.T) {
	type tags struct {
		Text []string `quiver:"max=2,each=100"`
	}
	afterAHook(t, label{"by a post"}, label{"by the hook"})
	afterAHook(t, tags{[]string{"by a post"}}, tags{[]string{"by the hook"}})
}

// afterAHook has a post give an actor one state, and an OnTick hook another one in a tick
// that only time brings about, soon after that; it expects the second one at the client.
func afterAHook[S any](t *testing.T, byPost, byHook S) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		class := NewClass("TimedHero", UpdateRate(2))
		states := NewState[S](class)
		bind := func(w *World) *Binding[*S] {
			b := Bind(w, class, func(*Actor) *S { return new(S) })
			Replicate(b, states, func(s *S) *S { return s })
			return b
		}
		server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
		here, there := bind(server.World), bind(client.World)
		var changed time.Time
		var s *S
		server.OnTick(func(now time.Time) {
			if !changed.IsZero() && now.After(changed) {
				*s, changed = byHook, time.Time{}
			}
		})
		ctx, a, object, end := spawnUnderRun(t, server, client, here)
		require.NoError(t, server.Do(ctx, func() {
			s = object
			*s, changed = byPost, server.frame.now
		}))
		time.Sleep(time.Minute)
		var got S
		require.NoError(t, client.Do(ctx, func() {
			copied, ok := there.At(a.Ref())
			require.True(t, ok)
			got = *copied
		}))
		end()
		require.Equal(t, byHook, got, "a minute later")
	})
}

// TestSecondMissedUnderRun: a client that requests everything again twice
// within a second gets it after that second.
func TestSecondMissedUnderRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
		ctx, conn, end := underRun(t, server, client)
		var err error
		var a *Actor
		require.NoError(t, server.Do(ctx, func() {
			a, _, err = Spawn(server.binding, server.joined[0], func(p *puppet) { p.label.Text = "true" })
			require.NoError(t, err)
		}))
		time.Sleep(3 * time.Second)
		var texts []string
		for range 2 { // the copy loses its state, as one whose update was dropped behind its acknowledgement
			require.NoError(t, client.Do(ctx, func() {
				copied, ok := client.binding.At(a.Ref())
				require.True(t, ok)
				texts = append(texts, copied.label.Text)
				copied.label.Text = "stale"
				conn.link.Lock()
				require.NoError(t, conn.machine.Send(0, bunch.Reliable, control.AppendMissed(nil)))
				conn.link.Unlock()
			}))
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		require.NoError(t, client.Do(ctx, func() {
			copied, ok := client.binding.At(a.Ref())
			require.True(t, ok)
			texts = append(texts, copied.label.Text)
		}))
		end()
		require.Equal(t, []string{"true", "true", "true"}, texts)
	})
}

var slowAsked, slowGoOn chan struct{}

type slowArgument struct {
	Text []byte `quiver:"max=8"`
}

func (slowArgument) Validate() error {
	if slowAsked != nil {
		close(slowAsked)
		slowAsked = nil
		<-slowGoOn
	}
	return nil
}

// TestAskGivesItsArgumentBack: after an Ask whose ctx has ended, the argument's memory is free.
func TestAskGivesItsArgumentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		class := NewClass("Slow")
		ask := ServerRequest[slowArgument, int](class, "Ask")
		server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
		heard := ""
		OnRequest(Bind(server.World, class, func(*Actor) *puppet { return new(puppet) }), ask, func(_ *puppet, _ *Call, arg slowArgument) (int, error) {
			heard = string(arg.Text)
			return 0, nil
		})
		opened := make(chan *Actor, 1)
		Bind(client.World, class, func(a *Actor) *puppet { opened <- a; return new(puppet) })
		ctx, _, end := underRun(t, server, client)
		var err error
		require.NoError(t, server.Do(ctx, func() { _, err = server.Spawn(class, server.joined[0]) }))
		a := <-opened

		asked := make(chan struct{})
		slowAsked, slowGoOn = asked, make(chan struct{})
		asking, giveUp := context.WithCancel(ctx)
		text := []byte("first")
		done := make(chan error, 1)
		go func() {
			_, err := ask.Ask(asking, a, slowArgument{text})
			copy(text, "other") // it is ours again
			done <- err
		}()
		<-asked
		giveUp()
		select {
		case err = <-done:
			require.ErrorIs(t, err, context.Canceled)
			close(slowGoOn)
		case <-time.After(time.Second): // it waits for the argument to be encoded
			close(slowGoOn)
			<-done
		}
		time.Sleep(time.Second)
		end()
		require.NotEqual(t, "other", heard, "what the server was asked was written after Ask had returned")
	})
}

// TestCallsOfTheLastOnDisconnectRun: a closed world runs the calls of its last
// functions before Run returns.
func TestCallsOfTheLastOnDisconnectRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
		ctx, _, end := underRun(t, server, client)
		require.NoError(t, server.Do(ctx, func() {
			a, err := server.Spawn(hero, nil)
			require.NoError(t, err)
			server.OnDisconnect(func(*Conn, error) { require.NoError(t, fire.Call(a, shot{1})) })
		}))
		end()
		require.Contains(t, server.heard, "fire")
		require.Zero(t, server.Dropped())
	})
}

// TestCallsThatNeverEnd: a function that calls again in each call does not keep
// Run of a closed world from returning, and calls that do not run are counted.
func TestCallsThatNeverEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		class := NewClass("Echo")
		again := Server[None](class, "Again", Reliable)
		w := newTestWorld(t, Config{Classes: []*Class{class}})
		b := Bind(w.World, class, func(a *Actor) *Actor { return a })
		On(b, again, func(a *Actor, _ *Call, _ None) { _ = again.Call(a, None{}) })
		ended := make(chan error, 1)
		go func() { ended <- w.Run(t.Context()) }()
		require.NoError(t, w.Do(t.Context(), func() {
			a, err := w.Spawn(class, nil)
			require.NoError(t, err)
			require.NoError(t, again.Call(a, None{}))
			go func() { _ = w.World.Close(context.Background(), 0, "end") }()
		}))
		require.ErrorIs(t, <-ended, ErrClosed)
		require.EqualValues(t, 1, w.Dropped())
	})
}

// TestChannelOfNobody: an actor that nobody owns is open at no connection.
func TestChannelOfNobody(t *testing.T) {
	w := newTestWorld(t, Config{})
	a, err := w.Spawn(hero, nil)
	require.NoError(t, err)
	require.False(t, a.Channel(a.Conn()).Open())
}

// lookAtTheActive has the steps of Run look at the active connections alone, as with many of them.
func lookAtTheActive(t *testing.T) {
	conns, states := fewConns, fewStates
	fewConns, fewStates = -1, -1
	t.Cleanup(func() { fewConns, fewStates = conns, states })
}

// TestRunLooksAtTheActive: what happens under Run happens in a world of so many
// connections that a step looks at the active ones alone.
func TestRunLooksAtTheActive(t *testing.T) {
	lookAtTheActive(t)
	for name, test := range map[string]func(*testing.T){
		"a question ends with its world": TestThenIsToldWhenItsWorldCloses,
		"a state that was not due":       TestStateThatWasNotDueUnderRun,
		"a state that a hook changes":    TestStateThatAHookChangesUnderRun,
		"everything anew":                TestSecondMissedUnderRun,
		"an argument comes back":         TestAskGivesItsArgumentBack,
		"calls of the last OnDisconnect": TestCallsOfTheLastOnDisconnectRun,
		"calls that never end":           TestCallsThatNeverEnd,
		"a channel of nobody":            TestChannelOfNobody,
	} {
		t.Run(name, test)
	}
}

// TestAcksRideOnTicks: in a game with calls in both directions in each tick nearly all packets
// contain calls, whatever the tick rate, because acks wait for the next tick's packet.
func TestAcksRideOnTicks(t *testing.T) {
	for _, rate := range []int{60, 30, 20, 10, 7} {
		synctest.Test(t, func(t *testing.T) {
			server, client := newTestWorld(t, Config{TickRate: rate}), newTestWorld(t, Config{TickRate: rate})
			ctx, conn, end := underRun(t, server, client)
			var a, mirror *Actor
			var channel uint64
			require.NoError(t, server.Do(ctx, func() {
				var err error
				a, err = server.Spawn(hero, server.joined[0])
				require.NoError(t, err)
				channel = a.openings[0].channel
			}))
			time.Sleep(time.Second)
			require.NoError(t, client.Do(ctx, func() { mirror = conn.channels.byNumber[channel] }))
			tick := time.Second / time.Duration(rate)
			sent := func() uint64 { return conn.Stats().PacketsOut + server.joined[0].Stats().PacketsOut }
			before, made := sent(), 0
			for ; made < 100; made++ {
				server.Post(func() { _ = blink.Call(a, 1) })
				time.Sleep(tick / 16)
				client.Post(func() { _ = title.Call(mirror, callsign{Name: "it"}) })
				time.Sleep(tick - tick/16)
			}
			packets := sent() - before
			t.Logf("%d Hz: %d packets with %d calls, acks wait %v", rate, packets, 2*made, conn.machine.Params().AckDelay)
			require.LessOrEqual(t, packets, uint64(2*made*11/10))
			end()
		})
	}
}

// TestCrowdsDoNotCompareAtEachMessage: with many connections and states, the cost of a
// message does not grow with the number of actors, and its changes are sent soon after.
func TestCrowdsDoNotCompareAtEachMessage(t *testing.T) {
	lookAtTheActive(t)
	withHero(t, NewClass("Crowded"), "99", func(ctx context.Context, server *testWorld, a *Actor, p *puppet) {
		compared, last := 0, time.Now()
		for i := range 100 {
			require.NoError(t, server.Do(ctx, func() { p.label.Text = strconv.Itoa(i) }))
			time.Sleep(settleTime / 10)
			require.NoError(t, server.Do(ctx, func() {
				if a.states.compared.After(last) {
					compared, last = compared+1, a.states.compared
				}
			}))
		}
		require.InDelta(t, 10, compared, 1)
	})
}

// TestMessageBeforeAdmission: a message that arrives while its connection waits
// for the end of an earlier one is handled, even if nothing arrives after it.
func TestMessageBeforeAdmission(t *testing.T) {
	lookAtTheActive(t)
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		server := newTestWorld(t, Config{
			MaxConnsPerIdentity: 1,
			Authenticate:        func(_ context.Context, token []byte) (string, error) { return string(token), nil },
			OnMessage: func(_ *World, c *Conn, id uint8, payload []byte) error {
				heard = append(heard, string(payload))
				return nil
			},
		})
		ann := func() *testWorld { return newTestWorld(t, Config{Token: []byte("ann")}) }
		_, _, end := underRun(t, server, ann())
		n := &network{t: t, server: server}
		server.Post(func() { time.Sleep(5 * time.Second) }) // the next step learns at once that the first has ended and the second has joined
		second := ann()
		conn, err := n.connect(second)
		require.NoError(t, err)
		require.NoError(t, conn.SendMessage(1, []byte("hello")))
		time.Sleep(time.Minute)
		require.NoError(t, second.World.Close(t.Context(), 0, "end"))
		second.Tick(time.Now())
		end()
		require.Equal(t, []string{"hello"}, heard)
	})
}

// TestTicksLookAtAll: an update that a Flush holds back because of UpdateRate is sent
// in the tick of TickRate in which it is due, however many connections there are.
func TestTicksLookAtAll(t *testing.T) {
	lookAtTheActive(t)
	synctest.Test(t, func(t *testing.T) {
		class := NewClass("Drummer", UpdateRate(50))
		labels, beat := NewState[label](class), Client[int](class, "Beat", Unreliable, ForceQueue())
		var heard []time.Duration
		var called time.Time
		bind := func(w *World) *Binding[*puppet] {
			b := Bind(w, class, func(*Actor) *puppet { return new(puppet) })
			Replicate(b, labels, func(p *puppet) *label { return &p.label })
			On(b, beat, func(*puppet, *Call, int) { heard = append(heard, time.Since(called)) })
			return b
		}
		server, client := newTestWorld(t, Config{TickRate: 100}), newTestWorld(t, Config{})
		here, _ := bind(server.World), bind(client.World)
		ctx, a, p, end := spawnUnderRun(t, server, client, here)
		for range 10 {
			time.Sleep(103 * time.Millisecond)
			require.NoError(t, server.Do(ctx, func() { p.label.Text += "." }))
			time.Sleep(time.Millisecond)
			synctest.Wait() // the client has read called
			require.NoError(t, server.Do(ctx, func() {
				called = time.Now()
				require.NoError(t, beat.Call(a, 1)) // the states were compared just now
			}))
		}
		time.Sleep(time.Second)
		end()
		require.Len(t, heard, 10)
		require.LessOrEqual(t, slices.Max(heard), 30*time.Millisecond+testDelay, "UpdateRate's 20 ms, and a tick")
	})
}

// TestForceQueueInACrowd: even if a step does not compare the states, a call is
// sent after the states that were changed before it.
func TestForceQueueInACrowd(t *testing.T) {
	lookAtTheActive(t)
	synctest.Test(t, func(t *testing.T) {
		class := NewClass("Drummer")
		labels, beat := NewState[label](class), Multicast[int](class, "Beat", Unreliable, ForceQueue())
		heard := make(map[int]string)
		bind := func(w *testWorld) *Binding[*puppet] {
			b := Bind(w.World, class, func(*Actor) *puppet { return new(puppet) })
			Replicate(b, labels, func(p *puppet) *label { return &p.label })
			On(b, beat, func(p *puppet, _ *Call, n int) {
				if !w.IsServer() {
					heard[n] = p.label.Text
				}
			})
			return b
		}
		server, client := newTestWorld(t, Config{}), newTestWorld(t, Config{})
		here, _ := bind(server), bind(client)
		ctx, a, p, end := spawnUnderRun(t, server, client, here)
		want := make(map[int]string)
		for n := range 20 {
			want[n] = strconv.Itoa(n)
			require.NoError(t, server.Do(ctx, func() {})) // its step compares
			time.Sleep(time.Millisecond)
			require.NoError(t, server.Do(ctx, func() {
				p.label.Text = want[n]
				require.NoError(t, beat.Call(a, n))
			}))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		end()
		require.Equal(t, want, heard)
	})
}

// TestCallsBeforeJoinAreNotKept: connections that never join must not wait in
// the inbox for a Dispatch.
func TestCallsBeforeJoinAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t, Config{})
		near, far := linktest.Pipe()
		c, err := w.Attach(plug{far})
		require.NoError(t, err)
		c.requestDispatch()
		w.callers.Take(func(*Conn) { t.Error("a connection that has not joined waits") })
		near.Fail(context.Canceled)
		c.Close(0, "")
		require.NoError(t, c.Wait(t.Context()))
	})
}
