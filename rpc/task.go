package rpc

// task is a function of the game that runs for a connection, or for nobody (nil).
type task struct {
	conn *Conn
	run  func()
}

// taskQueue holds tasks in order, from next on.
type taskQueue struct {
	tasks []task
	next  int
}

// later queues a task. Joining and leaving are made of tasks, so that each function of the game that takes part in them runs
// exactly once, whichever of them panics.
func (w *World) later(c *Conn, run func()) {
	w.tasks.tasks = append(w.tasks.tasks, task{c, run})
}

// runTasks runs the tasks, and those that they queue.
func (w *World) runTasks() {
	q := &w.tasks
	for q.next < len(q.tasks) {
		t := q.tasks[q.next]
		q.tasks[q.next] = task{}
		q.next++
		w.guard(t.conn, t.run)
	}
	q.tasks, q.next = q.tasks[:0], 0
}
