package tasks

// Runner runs functions of a game one at a time. Each runs for a connection C, or for none, the zero C. It removes a function from its
// queue before it calls it, so that a panic loses only that function. It is for one goroutine.
type Runner[C any] struct {
	// Doing names the function that runs, for errors when it panics or takes long.
	Doing Doing
	// Panicked is called when a function panics, while the stack of the panic can still be read. nil: the panic goes on.
	Panicked func(conn C, doing Doing, recovered any)

	tasks Queue[task[C]]
	posts Queue[func()]
}

// task is a function that runs for a connection.
type task[C any] struct {
	conn  C
	doing Doing
	run   func()
}

// Later queues a task. Joining and leaving consist of tasks, so that each of the game's functions in them runs exactly once, even if
// another one panics.
func (r *Runner[C]) Later(conn C, doing Doing, run func()) { r.tasks.Add(task[C]{conn, doing, run}) }

// Owed returns the number of queued tasks.
func (r *Runner[C]) Owed() int { return r.tasks.Len() }

// RunTasks runs the queued tasks, and those that these queue.
func (r *Runner[C]) RunTasks() {
	for t, ok := r.tasks.Take(); ok; t, ok = r.tasks.Take() {
		r.runTask(t)
	}
}

func (r *Runner[C]) runTask(t task[C]) {
	defer r.Catch(t.conn)
	r.Doing = t.doing
	t.run()
}

// Post moves the functions in from to the queue of posts; from is empty then.
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

// All calls next until that returns false. Each call runs one function of the game, which belongs to no connection; if that panics, All goes
// on with the next.
func (r *Runner[C]) All(next func() bool) {
	for r.untilPanic(next) {
	}
}

// untilPanic calls next until that returns false, or panics; it is true when a panic has ended it.
func (r *Runner[C]) untilPanic(next func() bool) (panicked bool) {
	var nobody C
	defer r.Catch(nobody)
	panicked = true
	for next() {
	}
	return false
}

// During calls fn, which is part of the function that runs, under the name doing. If fn panics, Doing keeps that name.
func (r *Runner[C]) During(doing Doing, fn func()) {
	outer := r.Doing
	r.Doing = doing
	fn()
	r.Doing = outer
}

// Catch is deferred around calls of the game's functions. It ends a panic if Panicked hears of it, and leaves runtime.Goexit alone.
func (r *Runner[C]) Catch(conn C) {
	if r.Panicked == nil {
		return
	}
	if recovered := recover(); recovered != nil {
		r.Panicked(conn, r.Doing, recovered)
	}
}
