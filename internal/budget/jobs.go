package budget

import (
	"net/netip"
	"sync"
)

// Jobs counts the jobs that a world does for its connections and can't interrupt, such as
// handlers that wait for a disk. A job may go on after its connection has ended. Then it counts
// for the connection's party, so that a peer can't have more jobs running by reconnecting. The
// zero Jobs has no jobs. It is safe for concurrent use.
type Jobs struct {
	mu   sync.Mutex
	left map[Party]int // jobs of connections that have ended
}

// A Party identifies a peer across all its connections, by its identity, or by its address if
// it has no identity. All connections with neither belong to the same party. At most one of
// the fields is set.
type Party struct {
	Identity string
	Address  netip.Prefix // as in package door
}

// ConnJobs counts the jobs of one connection. The zero ConnJobs has no jobs. It is guarded by
// the lock of its [Jobs].
type ConnJobs struct {
	running int
	ended   bool  // the connection has ended
	party   Party // the party to which the jobs are charged once the connection has ended
}

// Begin is called when a job begins.
func (j *Jobs) Begin(c *ConnJobs) { j.add(c, 1) }

// Return is called when a job is done, perhaps after the connection has ended.
func (j *Jobs) Return(c *ConnJobs) { j.add(c, -1) }

// add adds n to the jobs of a connection.
func (j *Jobs) add(c *ConnJobs, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c.running += n
	if c.ended {
		j.leave(c.party, n)
	}
}

// End is called when a connection has ended. Its jobs count for the party from then on.
func (j *Jobs) End(c *ConnJobs, party Party) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !c.ended {
		c.ended = true
		c.party = party
		j.leave(party, c.running)
	}
}

// leave adds n to the jobs of a party. The caller holds mu.
func (j *Jobs) leave(party Party, n int) {
	if n == 0 {
		return
	}
	if j.left == nil {
		j.left = make(map[Party]int)
	}
	j.left[party] += n
	if j.left[party] == 0 {
		delete(j.left, party)
	}
}

// Of returns the number of jobs that are running for a connection, including jobs of its
// party's ended connections.
func (j *Jobs) Of(c *ConnJobs, party Party) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return c.running + j.left[party]
}
