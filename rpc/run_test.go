package rpc

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPostsRunInOrderInTheNextDispatch(t *testing.T) {
	w := newTestWorld(t, Config{MaxPosts: 3})
	var ran []int
	for i := range 3 {
		w.Post(func() {
			ran = append(ran, i)
			w.Post(func() { ran = append(ran, 10+i) })
		})
	}
	w.Post(func() { ran = append(ran, -1) })
	require.EqualValues(t, 1, w.Dropped())
	require.ErrorIs(t, w.Do(t.Context(), func() {}), ErrBacklogFull)
	now := time.Unix(1000, 0)
	w.Dispatch(now)
	require.Equal(t, []int{0, 1, 2}, ran)
	w.Flush(now)
	w.Tick(now)
	require.Equal(t, []int{0, 1, 2, 10, 11, 12}, ran)
}

func TestDoRunsOnTheWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t, Config{})
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		inside := false
		require.NoError(t, w.Do(t.Context(), func() {
			inside = w.Inside()
			require.ErrorIs(t, w.Do(t.Context(), func() {}), ErrOnWorld)
		}))
		require.True(t, inside)
		require.False(t, w.Inside())

		cause := errors.New("time to go")
		cancel(cause)
		require.ErrorIs(t, <-ended, cause)

		brief, cancelBrief := context.WithTimeout(t.Context(), time.Second)
		defer cancelBrief()
		ran := false
		require.ErrorIs(t, w.Do(brief, func() { ran = true }), context.DeadlineExceeded)
		w.Tick(time.Now())
		require.False(t, ran, "a Do that was given up does not run later")
	})
}

// TestDoEndsWithItsWorld: Do returns if a closed world is no longer driven.
// Until then the function runs, even after the close.
func TestDoEndsWithItsWorld(t *testing.T) {
	for _, driven := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newTestWorld(t, Config{})
			require.ErrorIs(t, w.Run(expired()), context.Canceled)
			ended, ran := make(chan error, 1), false
			go func() { ended <- w.Do(context.Background(), func() { ran = true }) }()
			synctest.Wait()
			require.NoError(t, w.Close(t.Context(), HostClosedConnection, "over"))
			time.Sleep(time.Second - 1)
			if driven {
				w.Tick(time.Now())
				require.NoError(t, <-ended)
				require.True(t, ran)
				return
			}
			require.ErrorIs(t, <-ended, ErrClosed)
			w.Tick(time.Now())
			require.False(t, ran)
		})
	}
}

func TestDoFromTheTickLoopIsAnError(t *testing.T) {
	w := newTestWorld(t, Config{})
	w.Tick(time.Now())
	require.ErrorIs(t, w.Do(t.Context(), func() {}), ErrOnWorld, "between ticks, on the goroutine that ticks")
}

func TestOverlappingDrivesPanic(t *testing.T) {
	w := newTestWorld(t, Config{})
	const want = "rpc: the world is already being driven, by another goroutine or by the caller of this handler"
	for _, drive := range []func(){
		func() { w.Dispatch(time.Now()) }, func() { w.Flush(time.Now()) }, func() { w.Tick(time.Now()) }, func() { _ = w.Run(t.Context()) },
	} {
		w.Post(func() { require.PanicsWithValue(t, want, drive) })
	}
	w.Tick(time.Now())
	w.Tick(time.Now())
}

func TestOnTickRunsInFlush(t *testing.T) {
	w := newTestWorld(t, Config{})
	var ticks []time.Time
	w.OnTick(func(now time.Time) { ticks = append(ticks, now) })
	now := time.Unix(5, 0)
	w.Dispatch(now)
	require.Empty(t, ticks)
	w.Flush(now.Add(1))
	require.Equal(t, []time.Time{now.Add(1)}, ticks)
}

func TestRunTicksAtItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t, Config{TickRate: 20})
		ticks := 0
		w.OnTick(func(time.Time) { ticks++ })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second+time.Millisecond)
		defer cancel()
		require.ErrorIs(t, w.Run(ctx), context.DeadlineExceeded)
		require.Equal(t, 21, ticks, "once at the start, then 20 a second")
	})
}

// TestRatesThatClocksDoNotTell: a period between updates is at most the longest Duration.
func TestRatesThatClocksDoNotTell(t *testing.T) {
	w := newTestWorld(t, Config{TickRate: maxTickRate})
	require.ErrorIs(t, w.Run(expired()), context.Canceled)
	require.Positive(t, NewClass("Slow", UpdateRate(math.SmallestNonzeroFloat64)).updatePeriod)
	require.Zero(t, NewClass("Fast", UpdateRate(math.Inf(1))).updatePeriod)
}

func TestRunSleepsWithoutEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t, Config{})
		ticks := 0
		w.OnTick(func(time.Time) { ticks++ })
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.ErrorIs(t, w.Run(ctx), context.DeadlineExceeded)
		require.Equal(t, 1, ticks)
	})
}

func TestLocalCallsRunInTheNextDispatch(t *testing.T) {
	w := newTestWorld(t, Config{})
	a, err := w.Spawn(hero, nil)
	require.NoError(t, err)
	w.onFire = func(call *Call, s shot) {
		require.Nil(t, call.Conn)
		require.Same(t, a, call.Actor)
		if s.Ammo > 0 {
			require.NoError(t, fire.Call(a, shot{s.Ammo - 1}))
		}
	}
	require.NoError(t, fire.Call(a, shot{1}))
	require.Empty(t, w.take())
	w.Tick(time.Now())
	require.Equal(t, []string{"fire"}, w.take())
	w.Tick(time.Now())
	require.Equal(t, []string{"fire"}, w.take())
	w.Tick(time.Now())
	require.Empty(t, w.take())
}

// TestCheckGoroutine: with the option, a use of actors on another goroutine
// than the world's panics at once, before it has an effect.
func TestCheckGoroutine(t *testing.T) {
	for _, checks := range []bool{false, true} {
		w := newTestWorld(t, Config{CheckGoroutine: checks})
		elsewhere := func(do func()) (panicked any) {
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				do()
			}()
			return <-done
		}
		var a *Actor
		require.Nil(t, elsewhere(func() { a, _ = w.Spawn(hero, nil) }), "nobody drives the world yet")
		w.Tick(time.Now())
		require.NoError(t, fire.Call(a, shot{}))
		for name, do := range map[string]func(){
			"Hero.Fire":  func() { _ = fire.Call(a, shot{}) },
			"Spawn":      func() { _, _ = w.Spawn(hero, nil) },
			"SetOwner":   func() { _ = w.SetOwner(a, nil) },
			"SetDormant": func() { _ = a.SetDormant(false) },
			"CloseTo":    func() { a.CloseTo(&Conn{world: w.World}) },
			"UnloadTo":   func() { a.UnloadTo(&Conn{world: w.World}) },
			"Destroy":    func() { _ = w.Destroy(a) },
		} {
			panicked := elsewhere(do)
			if !checks {
				require.Nil(t, panicked)
				continue
			}
			require.Equal(t, "rpc: "+name+" called on a goroutine that does not drive the world: use World.Post or World.Do", panicked)
			require.True(t, a.Alive())
		}
	}
}

// TestRunOnBothSides: without ticks, calls and answers are sent as they are made.
func TestRunOnBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, server: newTestWorld(t, Config{})}
		client := newTestWorld(t, Config{})
		end, err := n.connect(client)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- n.server.Run(ctx) }()
		go func() { ended <- client.Run(ctx) }()

		const rounds = 20
		done := make(chan struct{})
		n.server.onFire = func(call *Call, s shot) {
			if s.Ammo == rounds {
				close(done)
				return
			}
			require.NoError(t, hit.Call(call.Actor, s.Ammo))
		}
		time.Sleep(time.Second)
		start := time.Now()
		require.NoError(t, n.server.Do(ctx, func() {
			a, err := n.server.Spawn(hero, n.server.joined[0])
			require.NoError(t, err)
			require.NoError(t, hit.Call(a, 0))
		}))
		i := 0
		answer := func() {
			for _, a := range end.channels.byNumber {
				i++
				require.NoError(t, fire.Call(a, shot{i}))
			}
		}
		for i < rounds {
			time.Sleep(2 * testDelay)
			synctest.Wait()
			require.NoError(t, client.Do(ctx, answer))
		}
		<-done
		require.Less(t, time.Since(start), time.Second)
		require.NoError(t, n.server.Close(ctx, HostClosedConnection, "over"))
		require.ErrorIs(t, <-ended, ErrClosed)
		<-end.Done()
		cancel()
		<-ended
		require.Len(t, n.server.left, 1)
		require.ErrorIs(t, n.server.Do(context.Background(), func() {}), ErrClosed)
	})
}

// TestEachConnectionIsFirstInTurn: of the connections that send at each tick, each is first
// about as often as any other, and is among the first eighth again within fourteen ticks.
// If they took turns in a row, one of 1,024 would send among the last for half a minute. It
// is the same if any number of Flushes of a single connection are in between: before, with
// 88 in each tick, a client of 1,024 was not among the first eighth for 176 ticks.
func TestEachConnectionIsFirstInTurn(t *testing.T) {
	for _, n := range []int{2, 3, 8, 32, 1024} {
		for _, between := range []int{0, 1, 12, 88} {
			var o sendOrder
			first, early, longest := make([]int, n), make([]uint64, n), uint64(0)
			for tick := range uint64(64 * n) {
				for range between {
					require.Zero(t, o.next(1))
				}
				begin := o.next(n)
				first[begin]++
				for k := range (n + 7) / 8 {
					c := (begin + k) % n
					longest, early[c] = max(longest, tick-early[c]), tick
				}
			}
			require.GreaterOrEqual(t, slices.Min(first), 62)
			require.LessOrEqual(t, slices.Max(first), 66)
			require.LessOrEqual(t, longest, uint64(14), n)
		}
	}
}
