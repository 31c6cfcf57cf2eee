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
			w.tellPanic(conn, activity{}, recovered)
		}
	}()
	fn()
	return true
}

// catch is deferred around calls of the game's functions on the world's goroutine. It ends a panic if Config.OnPanic takes
// it, closes conn unless that is nil, and leaves runtime.Goexit alone.
func (w *World) catch(conn *Conn) {
	if w.config.OnPanic == nil {
		return
	}
	if recovered := recover(); recovered != nil {
		w.panicked(conn, w.doing, recovered)
	}
}

// panicked closes the connection for which a function of the game panicked. The peer may read the function's name: it has joined,
// so it declares the same classes. Before that only Config.Authenticate and Login run for it.
func (w *World) panicked(conn *Conn, doing activity, recovered any) {
	if conn != nil {
		conn.abort(&CloseError{Code: HandlerPanic, Reason: fmt.Sprintf("%v panicked", doing), cause: panicError{recovered}})
	}
	w.tellPanic(conn, doing, recovered)
}

// tellPanic is called while the stack of the panic still stands.
func (w *World) tellPanic(conn *Conn, doing activity, recovered any) {
	log := w.log
	if conn != nil {
		log = log.With("conn", conn)
	}
	log.Error("panic in a function of the game", "function", doing.String(), "panic", fmt.Sprint(recovered))
	w.config.OnPanic(conn, recovered, debug.Stack())
}

// during runs fn, which is part of what runs already. When it panics its own name stays.
func (w *World) during(doing activity, fn func()) {
	outer := w.doing
	w.doing = doing
	fn()
	w.doing = outer
}

// activity is a function of the game that runs, by name: of a method or a class when it has one. It is set before every call,
// so it is made of parts, without allocating.
type activity struct {
	what   string
	method *method
	class  *Class
}

func (d activity) String() string {
	switch {
	case d.method != nil:
		return d.what + d.method.String()
	case d.class != nil:
		return d.what + d.class.name
	case d.what == "":
		return "a function of the game"
	}
	return d.what
}

// panicError is what a function of the game panicked with, as the cause of a CloseError. It stays on this side.
type panicError struct{ recovered any }

func (e panicError) Error() string { return fmt.Sprintf("panic: %v", e.recovered) }

// Unwrap returns the error that was panicked with, nil when it was none.
func (e panicError) Unwrap() error {
	err, _ := e.recovered.(error)
	return err
}

// task is a function of the game that runs for a connection, or for nobody (nil).
type task struct {
	conn  *Conn
	doing activity
	run   func()
}

// taskQueue holds tasks in order, from next on.
type taskQueue struct {
	tasks []task
	next  int
}

// later queues a task. Joining and leaving are made of tasks, so that each function of the game that takes part in them runs
// exactly once, whichever of them panics.
func (w *World) later(c *Conn, doing activity, run func()) {
	w.tasks.tasks = append(w.tasks.tasks, task{c, doing, run})
}

// runTasks runs the tasks, and those that they queue.
func (w *World) runTasks() {
	q := &w.tasks
	for q.next < len(q.tasks) {
		t := q.tasks[q.next]
		q.tasks[q.next] = task{}
		q.next++
		w.runTask(t)
	}
	q.tasks, q.next = q.tasks[:0], 0
}

func (w *World) runTask(t task) {
	defer w.catch(t.conn)
	w.doing = t.doing
	t.run()
}
