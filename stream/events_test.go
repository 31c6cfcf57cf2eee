package stream

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/rpc"
)

// TestProgressInAWorldThatWaitsForEvents: what an application has consumed is
// reported even if nothing else happens.
func TestProgressInAWorldThatWaitsForEvents(t *testing.T) {
	withInbox(t, func(t *testing.T, l loopback, inbox *Inbox) {
		out, err := save.Start(l.toServer, bytes.NewReader(make([]byte, 600<<10)), 600<<10, Name("slow"))
		require.NoError(t, err)
		in, err := inbox.Take(t.Context(), "slow")
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		for range 3 {
			_, err = io.CopyN(io.Discard, in, 30<<10)
			require.NoError(t, err)
			time.Sleep(60 * time.Millisecond)
		}
		here := in.Progress().Acked
		require.NotZero(t, here)
		time.Sleep(time.Second)
		require.GreaterOrEqual(t, out.Progress().Acked, here)
		_, err = io.Copy(io.Discard, in)
		require.NoError(t, err)
		require.NoError(t, out.Wait(t.Context()))
	})
}

// TestCancelInAWorldThatWaitsForEvents: calls to a peer that takes nothing end at once.
func TestCancelInAWorldThatWaitsForEvents(t *testing.T) {
	class := rpc.NewClass("CancelTestPlayer")
	receive := rpc.Client[[]int64](class, "Receive", rpc.Reliable)
	stop := make(chan struct{})
	var there *rpc.World
	prepare := func(server, client *rpc.World) {
		there = server
		rpc.Bind(server, class, func(a *rpc.Actor) *rpc.Actor { return a })
		b := rpc.Bind(client, class, func(a *rpc.Actor) *rpc.Actor { return a })
		rpc.On(b, receive, func(*rpc.Actor, *rpc.Call, []int64) { <-stop }) // the client's world hangs
	}
	overQUICWith(t, netsim.Config{Delay: 5 * time.Millisecond}, rpc.Config{}, prepare, func(t *testing.T, l loopback) {
		stop = make(chan struct{})
		var calling *Calling
		require.NoError(t, there.Do(t.Context(), func() {
			a, err := there.Spawn(class, l.toClient.Conn())
			require.NoError(t, err)
			calling, err = Calls(receive, a, make([]int64, 8<<20), CallsConfig{})
			require.NoError(t, err)
		}))
		time.Sleep(20 * time.Second)
		calling.Cancel(errors.New("enough"))
		select {
		case <-calling.Done():
		case <-time.After(time.Second):
			t.Error("a second after Cancel the calls go on")
		}
		close(stop)
		<-calling.Done()
	})
}

var (
	lentAsked, lentGoOn chan struct{}
	lentSeen            atomic.Bool
)

// lent is an element whose Validate waits, the first time, and reports whether
// the element was changed.
type lent struct{ N int32 }

func (l lent) Validate() error {
	if l.N == 99 {
		lentSeen.Store(true)
	}
	if lentAsked != nil {
		close(lentAsked)
		lentAsked = nil
		<-lentGoOn
	}
	return nil
}

// TestItemsAreTheCallersOnceTheirTransferHasEnded: nothing reads them after Done.
func TestItemsAreTheCallersOnceTheirTransferHasEnded(t *testing.T) {
	array := NewArray[lent]("lent")
	overQUICWith(t, netsim.Config{}, rpc.Config{}, func(server, client *rpc.World) {}, func(t *testing.T, l loopback) {
		require.NoError(t, l.toClient.Conn().World().Do(t.Context(), func() { array.Handle(l.server, func(*IncomingArray[lent]) {}) }))
		asked := make(chan struct{})
		lentAsked, lentGoOn = asked, make(chan struct{})
		items := make([]lent, 1000)
		transfer, err := array.Start(l.toServer, items)
		require.NoError(t, err)
		<-asked
		transfer.Cancel(errors.New("enough"))
		require.ErrorIs(t, transfer.Err(), ErrCanceled, "at once")
		select {
		case <-transfer.Done():
			t.Error("the reader is inside Validate")
		case <-time.After(time.Second):
		}
		close(lentGoOn)
		<-transfer.Done()
		for i := range items {
			items[i].N = 99 // they are ours again
		}
		time.Sleep(time.Second)
		require.False(t, lentSeen.Load())
	})
}

// TestCallsFromAHookInAWorldThatWaitsForEvents: calls that begin after the turn
// of the active ones still begin at once.
func TestCallsFromAHookInAWorldThatWaitsForEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		class := rpc.NewClass("HookTestPlayer")
		receive := rpc.Server[[]int64](class, "Receive", rpc.Reliable)
		world, err := rpc.NewWorld(rpc.Config{})
		require.NoError(t, err)
		heard := 0
		b := rpc.Bind(world, class, func(a *rpc.Actor) *rpc.Actor { return a })
		rpc.On(b, receive, func(_ *rpc.Actor, _ *rpc.Call, items []int64) { heard += len(items) })
		ended := make(chan error, 1)
		go func() { ended <- world.Run(t.Context()) }()
		call := func(a *rpc.Actor) *Calling {
			c, err := Calls(receive, a, make([]int64, 10), CallsConfig{})
			require.NoError(t, err)
			return c
		}
		var first, second *Calling
		again := false
		require.NoError(t, world.Do(t.Context(), func() {
			a, err := world.Spawn(class, nil)
			require.NoError(t, err)
			first = call(a)
			world.OnTick(func(time.Time) { // behind the hook of all Calls
				if again {
					again, second = false, call(a)
				}
			})
		}))
		<-first.Done()
		time.Sleep(time.Minute)
		require.NoError(t, world.Do(t.Context(), func() { again = true }))
		time.Sleep(time.Minute)
		require.NoError(t, world.Do(t.Context(), func() {
			select {
			case <-second.Done():
			default:
				t.Error("a minute later they have not begun")
			}
		}))
		require.NoError(t, world.Close(t.Context(), 0, "end"))
		require.ErrorIs(t, <-ended, rpc.ErrClosed)
		require.Equal(t, 20, heard)
	})
}

// TestClosedWorldCountsNoWakeUp: transfers that end with their world refuse nothing of the game's.
func TestClosedWorldCountsNoWakeUp(t *testing.T) {
	withInbox(t, func(t *testing.T, l loopback, inbox *Inbox) {
		out, err := save.Start(l.toServer, bytes.NewReader(make([]byte, 9<<20)), 9<<20, Name("long"))
		require.NoError(t, err)
		in, err := inbox.Take(t.Context(), "long")
		require.NoError(t, err)
		time.Sleep(3 * time.Second)
		for _, end := range []*Peer{l.toClient, l.toServer} {
			require.NoError(t, end.Conn().World().Close(t.Context(), 0, "end"))
		}
		<-out.Done()
		<-in.Done()
		time.Sleep(3 * time.Second)
		require.Zero(t, l.toClient.Conn().World().Dropped(), "at the server")
		require.Zero(t, l.toServer.Conn().World().Dropped(), "at the client")
	})
}

// TestCallsEndWithTheirWorld: calls that run in their own world, and are more
// than its last ticks take, do not wait for ever when it is closed.
func TestCallsEndWithTheirWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		class := rpc.NewClass("LonelyTestPlayer")
		receive := rpc.Server[[]int64](class, "Receive", rpc.Reliable)
		world, err := rpc.NewWorld(rpc.Config{})
		require.NoError(t, err)
		b := rpc.Bind(world, class, func(a *rpc.Actor) *rpc.Actor { return a })
		rpc.On(b, receive, func(*rpc.Actor, *rpc.Call, []int64) {})
		ended := make(chan error, 1)
		go func() { ended <- world.Run(t.Context()) }()
		calls := make(chan *Calling, 1)
		require.NoError(t, world.Do(t.Context(), func() {
			a, err := world.Spawn(class, nil)
			require.NoError(t, err)
			c, err := Calls(receive, a, make([]int64, 32<<20), CallsConfig{})
			require.NoError(t, err)
			calls <- c
			require.NoError(t, world.Close(t.Context(), 0, "end"))
		}))
		require.ErrorIs(t, <-ended, rpc.ErrClosed)
		c := <-calls
		select {
		case <-c.Done():
			require.ErrorIs(t, c.Err(), ErrClosed)
		case <-time.After(time.Minute):
			t.Error("a minute later they have not ended")
		}
	})
}

// TestActorsAreTheGames: a game that goes through all actors, to destroy them
// when the server travels, does not destroy those that streams need.
func TestActorsAreTheGames(t *testing.T) {
	withInbox(t, func(t *testing.T, l loopback, inbox *Inbox) {
		for _, end := range []*Peer{l.toClient, l.toServer} {
			world := end.Conn().World()
			require.NoError(t, world.Do(t.Context(), func() {
				for a := range world.Actors() {
					require.NotContains(t, a.Class().Name(), "quiver.")
					require.NoError(t, world.Destroy(a))
				}
			}))
		}
		out, err := save.Start(l.toServer, bytes.NewReader(make([]byte, 1000)), 1000, Name("after"))
		require.NoError(t, err)
		in, err := inbox.Take(t.Context(), "after")
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, in)
		require.NoError(t, err)
		require.NoError(t, out.Wait(t.Context()))
	})
}
