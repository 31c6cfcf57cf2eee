package tasks

// A Runner runs functions of a game one at a time. Each runs for a connection C, or for the zero C
// if it belongs to none. A Runner removes a function from its queue before it calls the function,
// so a panic loses only that function. It isn't safe for concurrent use.
type Runner[C any] struct {
	// Doing names the running function, for messages if it panics or is slow.
	Doing Doing
	// Last is the last function that During named and that has returned, for messages about a
	// slow one, such as a constructor.
	Last Doing
	// Panicked is called when a function panics, while the stack of the panic can still be
	// read. If it's nil, the panic continues.
	Panicked func(conn C, doing Doing, recovered any)

	tasks Queue[task[C]]
	posts Queue[func()]
}

// A task is a function that runs for a connection.
type task[C any] struct {
	conn  C
	doing Doing
	run   func()
}

// Later queues a task. Joining and leaving consist of tasks, so that each of the game's functions
// in them runs exactly once even if another one panics.
func (r *Runner[C]) Later(conn C, doing Doing, run func()) { r.tasks.Add(task[C]{conn, doing, run}) }

// Pending returns the number of queued tasks.
func (r *Runner[C]) Pending() int { return r.tasks.Len() }

// RunTasks runs the queued tasks, including those that they queue.
func (r *Runner[C]) RunTasks() {
	for t, ok := r.tasks.Take(); ok; t, ok = r.tasks.Take() {
		r.runTask(t)
	}
}

// runTask runs a task.
func (r *Runner[C]) runTask(t task[C]) {
	defer r.Catch(t.conn)
	r.Doing = t.doing
	t.run()
}

// Post moves the functions in from to the queue of posts and empties from.
func (r *Runner[C]) Post(from *[]func()) { r.posts.AddAll(from) }

// RunPosts runs the queued posts.
func (r *Runner[C]) RunPosts() {
	r.All(func() bool {
		fn, ok := r.posts.Take()
		if ok {
			r.Doing = Doing{What: "a posted function"}
			fn()
		}
		return ok
	})
}

// All calls next until it returns false. Each call runs one function of the game, which belongs to
// no connection. If the function panics, All goes on with the next one.
func (r *Runner[C]) All(next func() bool) {
	for r.untilPanic(next) {
	}
}

// untilPanic calls next until it returns false or panics, and reports whether it panicked.
func (r *Runner[C]) untilPanic(next func() bool) (panicked bool) {
	var none C
	defer r.Catch(none)
	panicked = true // unless we get to the end
	for next() {
	}
	return false
}

// During calls fn, which is a part of the running function, with Doing set to doing. If fn panics,
// Doing keeps that value, for the error.
func (r *Runner[C]) During(doing Doing, fn func()) {
	outer := r.Doing
	r.Doing = doing
	fn()
	r.Doing = outer
	r.Last = doing
}

// Catch must be deferred by whoever calls a function of the game. It recovers from a panic and
// calls Panicked, unless Panicked is nil. It doesn't affect runtime.Goexit.
func (r *Runner[C]) Catch(conn C) {
	if r.Panicked == nil {
		return
	}
	if recovered := recover(); recovered != nil {
		r.Panicked(conn, r.Doing, recovered)
	}
}
