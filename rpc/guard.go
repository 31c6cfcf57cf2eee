package rpc

import (
	"fmt"
	"runtime/debug"
)

// Guard runs fn, a function of the game, and reports whether it returned. A package that calls functions of the game from
// hooks of its own runs them here, so that a panic reaches Config.OnPanic with conn, which may be nil, and is the matter of
// that package. Guard closes nothing. Without Config.OnPanic the panic goes on.
//
// The world's own calls of handlers and hooks are guarded already, and close the connection with HandlerPanic besides.
func (w *World) Guard(conn *Conn, fn func()) (returned bool) {
	if w.config.OnPanic == nil {
		fn()
		return true
	}
	defer func() {
		if recovered := recover(); recovered != nil {
			w.tellPanic(conn, recovered)
		}
	}()
	fn()
	return true
}

// guard runs fn for conn, or for nobody (nil), and closes conn when it panics.
func (w *World) guard(conn *Conn, fn func()) {
	defer w.catch(conn)
	fn()
}

// catch is deferred around calls of the game's functions. It ends a panic if Config.OnPanic takes it, and leaves
// runtime.Goexit alone.
func (w *World) catch(conn *Conn) {
	if w.config.OnPanic == nil {
		return
	}
	if recovered := recover(); recovered != nil {
		if conn != nil {
			conn.abort(&CloseError{Code: HandlerPanic, Reason: "a function of the game panicked", cause: panicError{recovered}})
		}
		w.tellPanic(conn, recovered)
	}
}

// tellPanic is called while the stack of the panic still stands.
func (w *World) tellPanic(conn *Conn, recovered any) {
	if conn == nil {
		w.log.Error("panic in a function of the game", "panic", fmt.Sprint(recovered))
	} else {
		w.log.Error("panic in a function of the game", "conn", conn, "panic", fmt.Sprint(recovered))
	}
	w.config.OnPanic(conn, recovered, debug.Stack())
}

// panicError is what a function of the game panicked with, as the cause of a CloseError. It stays on this side.
type panicError struct{ recovered any }

func (e panicError) Error() string { return fmt.Sprintf("panic: %v", e.recovered) }

// Unwrap returns the error that was panicked with, nil when it was none.
func (e panicError) Unwrap() error {
	err, _ := e.recovered.(error)
	return err
}
