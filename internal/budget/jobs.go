package budget

import (
	"net/netip"
	"sync"
)

// Jobs counts what a world is doing for its connections and can't interrupt, such as handlers
// that wait for a disk. That may go on after the connection has ended, and then counts for the
// connection's party, so a peer can't get more done by reconnecting. The zero Jobs has nothing
// to do. It is safe for concurrent use.
type Jobs struct {
	mu   sync.Mutex
	left map[Party]int // jobs of connections that have ended
}

// A Party identifies a peer across all its connections, by its identity, or by its address if it
// has no identity. All connections with neither are the same party. At most one of the fields is
// set.
type Party struct {
	Identity string
	Address  netip.Prefix // as in package door
}

// ConnJobs are the jobs of one connection. The zero ConnJobs has none. It is guarded by the lock
// of its [Jobs].
type ConnJobs struct {
	running int
	ended   bool  // the connection has ended
	party   Party // whom the jobs count for once the connection has ended
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

// Of returns how many jobs are running for a connection, including those of its party's ended
// connections.
func (j *Jobs) Of(c *ConnJobs, party Party) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return c.running + j.left[party]
}
