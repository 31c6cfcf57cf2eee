package budget

import "sync"

// Jobs counts work that a world does for its connections and that may go on after their end, because nobody can interrupt it: handlers
// that wait for a disk, say. What is left of ended connections counts for their identity, so that who comes again has no more of it done.
// The empty identity is everybody's, so nothing is left for it. The zero Jobs has none. It is safe from any goroutine.
type Jobs struct {
	mu   sync.Mutex
	left map[string]int // by identity: jobs of connections that have ended
}

// ConnJobs are the jobs of one connection; the zero ConnJobs are none. The lock of its [Jobs] guards it.
type ConnJobs struct {
	running  int
	ended    bool // the connection has
	identity string
}

// Begin notes one more job of a connection.
func (j *Jobs) Begin(c *ConnJobs) { j.add(c, 1) }

// Return notes that a job of a connection, which may have ended, is over.
func (j *Jobs) Return(c *ConnJobs) { j.add(c, -1) }

func (j *Jobs) add(c *ConnJobs, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c.running += n
	if c.ended {
		j.leave(c.identity, n)
	}
}

// End notes that a connection has ended: its jobs count for the identity from now on.
func (j *Jobs) End(c *ConnJobs, identity string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !c.ended {
		c.ended, c.identity = true, identity
		j.leave(identity, c.running)
	}
}

// leave counts n more jobs for an identity. The lock is held.
func (j *Jobs) leave(identity string, n int) {
	if identity == "" || n == 0 {
		return
	}
	if j.left == nil {
		j.left = make(map[string]int)
	}
	if j.left[identity] += n; j.left[identity] == 0 {
		delete(j.left, identity)
	}
}

// Of returns how many jobs run for a connection, and for ended ones of its identity.
func (j *Jobs) Of(c *ConnJobs, identity string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return c.running + j.left[identity]
}
