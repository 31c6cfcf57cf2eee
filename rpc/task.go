package rpc

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
