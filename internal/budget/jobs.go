package budget

import (
	"net/netip"
	"sync"
)

// Jobs counts work that a world does for its connections and that cannot be interrupted, such
// as handlers that wait for a disk. This work may continue after its connection has ended. It
// then counts for the connection's party, so a peer that reconnects gets no more done. The
// zero Jobs counts no work. It is safe for concurrent use.
type Jobs struct {
	mu   sync.Mutex
	left map[Party]int // jobs of connections that have ended
}

// A Party identifies a peer across all its connections. It is the peer's identity, or the
// address if the peer has no identity. Connections with neither are one party. At most one
// field is set.
type Party struct {
	Identity string
	Address  netip.Prefix // in the form in which package door counts addresses
}

// ConnJobs holds the jobs of one connection. The zero ConnJobs has none. The lock of its
// [Jobs] guards it.
type ConnJobs struct {
	running int
	ended   bool  // the connection has ended
	party   Party // charged with the jobs once the connection has ended
}

// Begin counts one more job for a connection.
func (j *Jobs) Begin(c *ConnJobs) { j.add(c, 1) }

// Return is called when a job is finished. Its connection may have ended before.
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

// End is called when a connection has ended. Its jobs count for the party from now on.
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

// Of returns the number of jobs that run for a connection and for ended connections of its
// party.
func (j *Jobs) Of(c *ConnJobs, party Party) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return c.running + j.left[party]
}
