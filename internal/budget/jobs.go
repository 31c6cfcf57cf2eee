package budget

import (
	"net/netip"
	"sync"
)

// Jobs counts the jobs that a world does for its connections and can't interrupt, such as handlers
// that wait for a disk. A job that is still running when its connection ends counts for the
// connection's party from then on, so that a peer can't run more jobs by reconnecting. The zero
// Jobs has no jobs. It is safe for concurrent use.
type Jobs struct {
	mu    sync.Mutex
	ended map[Party]int // jobs of connections that have ended
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

// Start is called when a job starts.
func (j *Jobs) Start(c *ConnJobs) { j.add(c, 1) }

// Done is called when a job has finished, perhaps after the connection has ended.
func (j *Jobs) Done(c *ConnJobs) { j.add(c, -1) }

// add adds n to the jobs of a connection.
func (j *Jobs) add(c *ConnJobs, n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c.running += n
	if c.ended {
		j.addEnded(c.party, n)
	}
}

// End is called when a connection has ended. Its jobs count for the party from then on.
func (j *Jobs) End(c *ConnJobs, party Party) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !c.ended {
		c.ended = true
		c.party = party
		j.addEnded(party, c.running)
	}
}

// addEnded adds n to the jobs of a party. The caller holds mu.
func (j *Jobs) addEnded(party Party, n int) {
	if n == 0 {
		return
	}
	if j.ended == nil {
		j.ended = make(map[Party]int)
	}
	j.ended[party] += n
	if j.ended[party] == 0 {
		delete(j.ended, party)
	}
}

// Running returns the number of jobs that are running for a connection, including jobs of its
// party's ended connections.
func (j *Jobs) Running(c *ConnJobs, party Party) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return c.running + j.ended[party]
}
