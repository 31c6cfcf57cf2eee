package tasks

// Runner runs functions of a game one at a time, for a connection C or for nobody, its zero value. Whatever runs has left its queue before,
// so that a panic loses nothing else. It is for one goroutine.
type Runner[C any] struct {
	// Doing is what runs, to name it when it panics or takes long.
	Doing Doing
	// Panicked hears of a panic while its stack stands. nil: panics go on.
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

// Later queues a task. Joining and leaving are made of tasks, so that each function of the game that takes part in them runs exactly once,
// whichever of them panics.
func (r *Runner[C]) Later(conn C, doing Doing, run func()) { r.tasks.Add(task[C]{conn, doing, run}) }

// Owed returns how many tasks wait.
func (r *Runner[C]) Owed() int { return r.tasks.Len() }

// RunTasks runs the tasks, and those that they queue.
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

// Post takes over functions that others posted, and leaves from empty.
func (r *Runner[C]) Post(from *[]func()) { r.posts.AddAll(from) }

// RunPosts runs them.
func (r *Runner[C]) RunPosts() {
	for !r.posts.Empty() {
		r.runPosts()
	}
}

func (r *Runner[C]) runPosts() {
	var nobody C
	defer r.Catch(nobody)
	for fn, ok := r.posts.Take(); ok; fn, ok = r.posts.Take() {
		r.Doing = Doing{What: "a posted function"}
		fn()
	}
}

// During runs fn, which is part of what runs already. When it panics its own name stays.
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
