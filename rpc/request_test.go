package rpc

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRequestsUnderRun: many goroutines ask at once, worlds that only wake for
// events answer in a round trip, and a time limit ends a request even if
// nothing else happens. Messages continue, too, as soon as there is room.
func TestRequestsUnderRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := 0
		config := Config{
			Classes: []*Class{clerk}, RequestTime: 3 * time.Second, MessageRate: 1,
			OnMessage: func(*World, *Conn, uint8, []byte) error { heard++; return nil },
		}
		server, client := newTestWorld(t, config), newTestWorld(t, config)
		b := Bind(server.World, clerk, func(*Actor) *clerkObject { return new(clerkObject) })
		OnRequest(b, clerkAsk, func(o *clerkObject, call *Call, n int) (string, error) {
			switch {
			case n == 0:
				return "now", nil
			case n < 0:
				var none *RequestError
				return "", none // an error that is not nil, though it looks so
			}
			o.answers = append(o.answers, clerkAsk.Later(call))
			return "", nil
		})
		opened := make(chan *Actor, 1)
		Bind(client.World, clerk, func(a *Actor) *clerkObject { opened <- a; return new(clerkObject) })
		ctx, from, end := underRun(t, server, client)
		var err error
		require.NoError(t, server.Do(ctx, func() { _, err = server.Spawn(clerk, server.joined[0]) }))
		require.NoError(t, err)
		there := <-opened

		began := time.Now()
		var asking sync.WaitGroup
		for range 50 {
			asking.Go(func() {
				text, err := clerkAsk.Ask(ctx, there, 0)
				require.NoError(t, err)
				require.Equal(t, "now", text)
			})
		}
		asking.Wait()
		require.Less(t, time.Since(began), 3*testDelay, "a round trip and a half")

		_, err = clerkAsk.Ask(ctx, there, -1)
		require.ErrorContains(t, err, "the handler returned a nil *RequestError")

		began = time.Now()
		ended := make(chan error, 1)
		require.NoError(t, client.Do(ctx, func() { err = clerkAsk.Then(there, 1, func(_ string, err error) { ended <- err }) }))
		require.NoError(t, err)
		_, err = clerkAsk.Ask(ctx, there, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, <-ended, context.DeadlineExceeded)
		require.InDelta(t, 3, time.Since(began).Seconds(), 0.1)

		for n := 0; n < 20; {
			if from.SendMessage(1, nil) == nil {
				n++
				continue
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		end()
		require.Equal(t, 20, heard)
	})
}

// TestFunctionsForAnswersThatPanic: the connection of the answer is closed, and
// the functions of its other requests are called once.
func TestFunctionsForAnswersThatPanic(t *testing.T) {
	panics := 0
	withClerk(t, Config{OnPanic: func(*Conn, string, any, []byte) { panics++ }}, func(n *network, here, _ *Actor) {
		var heard []error
		require.NoError(t, clerkAdmit.Then(here, shot{1}, func(int, error) { panic("no") }))
		require.NoError(t, clerkAdmit.Then(here, shot{2}, func(_ int, err error) { heard = append(heard, err) }))
		n.tick(5)
		require.Equal(t, 1, panics)
		require.Len(t, heard, 1)
		var closed *CloseError
		require.ErrorAs(t, heard[0], &closed)
		require.Equal(t, HandlerPanic, closed.Code)
		require.Contains(t, closed.Reason, "the function for the answer of Clerk.Admit panicked")
	})
}

// withWaiting has a client under Run ask a server whose handler is fn.
func withWaiting(t *testing.T, config Config, fn func(ctx context.Context, n int) (string, error), play func(ctx context.Context, server *testWorld, there *Actor)) {
	config.Classes = []*Class{clerk}
	server, client := newTestWorld(t, config), newTestWorld(t, Config{Classes: []*Class{clerk}})
	b := Bind(server.World, clerk, func(*Actor) *clerkObject { return new(clerkObject) })
	OnRequest(b, clerkAsk, func(_ *clerkObject, call *Call, n int) (string, error) {
		clerkAsk.Go(call, func(ctx context.Context) (string, error) { return fn(ctx, n) })
		return "", nil
	})
	opened := make(chan *Actor, 1)
	Bind(client.World, clerk, func(a *Actor) *clerkObject { opened <- a; return new(clerkObject) })
	ctx, _, end := underRun(t, server, client)
	var err error
	require.NoError(t, server.Do(ctx, func() { _, err = server.Spawn(clerk, server.joined[0]) }))
	require.NoError(t, err)
	play(ctx, server, <-opened)
	end()
	require.NoError(t, server.WaitHandlers(context.Background()))
}

// TestGoThatDoesNotReturn: a handler that ends without an answer does not count as a refusal.
func TestGoThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		withWaiting(t, Config{}, func(context.Context, int) (string, error) { runtime.Goexit(); return "", nil },
			func(ctx context.Context, _ *testWorld, there *Actor) {
				_, err := clerkAsk.Ask(ctx, there, 1)
				var failed *RequestError
				require.ErrorAs(t, err, &failed)
				require.Contains(t, err.Error(), "has no answer: the handler did not return")
				require.False(t, failed.Refused)
			})
	})
}

// TestHandlersThatWait: the world continues in the meantime, each asker gets its
// own answer or error, and WaitHandlers waits until the answers have been sent.
func TestHandlersThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		withWaiting(t, Config{}, func(_ context.Context, n int) (string, error) {
			time.Sleep(time.Duration(n) * time.Second)
			if n == 3 {
				return "", &RequestError{Code: 3, Text: "no three"}
			}
			return "n"[:n%2], nil
		}, func(ctx context.Context, server *testWorld, there *Actor) {
			require.NoError(t, server.WaitHandlers(ctx), "none runs")
			began := time.Now()
			var asking sync.WaitGroup
			for n := range 4 {
				asking.Go(func() {
					text, err := clerkAsk.Ask(ctx, there, n)
					require.Equal(t, time.Duration(n), time.Since(began)/time.Second)
					var refused *RequestError
					if n == 3 {
						require.ErrorAs(t, err, &refused)
						require.True(t, refused.Refused)
						require.EqualValues(t, 3, refused.Code)
						return
					}
					require.NoError(t, err)
					require.Equal(t, "n"[:n%2], text)
				})
			}
			time.Sleep(time.Second / 2)
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			require.ErrorIs(t, server.WaitHandlers(short), context.DeadlineExceeded)
			require.NoError(t, server.WaitHandlers(ctx))
			require.NoError(t, server.World.Close(ctx, 0, "all were answered"))
			asking.Wait()
		})
	})
}

// TestHandlersNobodyWaitsFor: their context ends, and they count until they return.
// Otherwise a client that asks and cancels could have any number of them run.
func TestHandlersNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn, ended := make(chan struct{}), new(atomic.Int32)
		withWaiting(t, Config{MaxRequests: 2}, func(ctx context.Context, _ int) (string, error) {
			<-ctx.Done()
			<-goOn
			ended.Add(1)
			return "late", nil
		}, func(ctx context.Context, server *testWorld, there *Actor) {
			for range 2 {
				soon, cancel := context.WithTimeout(ctx, time.Second)
				_, err := clerkAsk.Ask(soon, there, 1)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				cancel()
			}
			_, err := clerkAsk.Ask(ctx, there, 1)
			require.ErrorIs(t, err, ErrBacklogFull)
			close(goOn)
			require.NoError(t, server.WaitHandlers(ctx))
			require.EqualValues(t, 2, ended.Load())
			soon, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err = clerkAsk.Ask(soon, there, 1)
			require.ErrorIs(t, err, context.DeadlineExceeded, "there is room again, and this one ends with its connection")
		})
	})
}

// TestHandlersThatPanicApart: the asker's connection is closed, and nothing else.
func TestHandlersThatPanicApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := make(chan any, 1)
		withWaiting(t, Config{OnPanic: func(_ *Conn, _ string, recovered any, _ []byte) { panics <- recovered }},
			func(context.Context, int) (string, error) { panic("no") },
			func(ctx context.Context, server *testWorld, there *Actor) {
				_, err := clerkAsk.Ask(ctx, there, 1)
				require.Error(t, err)
				require.Equal(t, "no", <-panics)
				var closed *CloseError
				<-there.Conn().Done()
				require.ErrorAs(t, there.Conn().Err(), &closed)
				require.Equal(t, HandlerPanic, closed.Code)
				require.NoError(t, server.WaitHandlers(ctx))
			})
	})
}
