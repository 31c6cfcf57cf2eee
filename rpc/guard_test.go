package rpc

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/tasks"
)

func TestGuardForOtherPackages(t *testing.T) {
	bomb := func() string { return "the bomb" }
	t.Run("panics go on without OnPanic", func(t *testing.T) {
		w := newTestWorld(t, Config{})
		require.True(t, w.Guard(nil, bomb, func() {}))
		require.PanicsWithValue(t, "boom", func() { w.Guard(nil, bomb, func() { panic("boom") }) })
	})
	t.Run("OnPanic takes them", func(t *testing.T) {
		var heard []any
		w, a := joined(t)
		w.game.Panicked = w.panicked
		w.config.OnPanic = func(c *Conn, function string, recovered any, stack []byte) {
			require.Contains(t, string(stack), "TestGuardForOtherPackages", "the stack shows who panicked")
			heard = append(heard, c, function, recovered)
		}
		require.True(t, w.Guard(a.Conn(), bomb, func() {}))
		require.False(t, w.Guard(a.Conn(), bomb, func() { panic("boom") }))
		require.Equal(t, []any{a.Conn(), "the bomb", "boom"}, heard)
		require.NoError(t, a.Conn().Err(), "closing is the caller's matter")
	})
	t.Run("a panic of OnPanic goes on", func(t *testing.T) {
		w := newTestWorld(t, Config{OnPanic: func(*Conn, string, any, []byte) { panic("worse") }})
		require.PanicsWithValue(t, "worse", func() { w.Guard(nil, bomb, func() { panic("boom") }) })
	})
}

func TestGuardClosesTheConnectionThatPanicked(t *testing.T) {
	w, a := joined(t)
	cause := errors.New("boom")
	w.game.Panicked = w.panicked
	w.config.OnPanic = func(c *Conn, _ string, _ any, _ []byte) {
		require.True(t, c.life.closing.Load(), "it is closed before OnPanic hears of it")
	}
	c := a.Conn()
	w.game.Later(c, tasks.Doing{What: "the bomb"}, func() { panic(cause) })
	w.game.RunTasks()
	<-c.Done()
	require.ErrorIs(t, c.Err(), cause)
	require.EqualError(t, c.Err(), "rpc: connection closed: HandlerPanic: the bomb panicked")
	w.Tick(time.Now())
	require.Len(t, w.left, 1)
}
