package budget

import (
	"net/netip"
	"sync"
)

// Jobs counts work that a world does for its connections and that may go on after their end, because nobody can interrupt it: handlers
// that wait for a disk, say. What is left of ended connections counts for their party, so that who comes again has no more of it done.
// The zero Jobs has none. It is safe for concurrent use.
type Jobs struct {
	mu   sync.Mutex
	left map[Party]int // jobs of connections that have ended
}

// Party is who a peer is over all of its connections: an identity, or the address of one that has none. Connections without either are one
// party. It has one of its fields set at most.
type Party struct {
	Identity string
	Address  netip.Prefix // as package door counts addresses
}

// ConnJobs are the jobs of one connection; the zero ConnJobs are none. The lock of its [Jobs] guards it.
type ConnJobs struct {
	running int
	ended   bool  // the connection has
	party   Party // for which they count since
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
		j.leave(c.party, n)
	}
}

// End notes that a connection has ended: its jobs count for the party from now on.
func (j *Jobs) End(c *ConnJobs, party Party) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !c.ended {
		c.ended, c.party = true, party
		j.leave(party, c.running)
	}
}

// leave counts n more jobs for a party. The lock is held.
func (j *Jobs) leave(party Party, n int) {
	if n == 0 {
		return
	}
	if j.left == nil {
		j.left = make(map[Party]int)
	}
	if j.left[party] += n; j.left[party] == 0 {
		delete(j.left, party)
	}
}

// Of returns how many jobs run for a connection, and for ended ones of its party.
func (j *Jobs) Of(c *ConnJobs, party Party) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return c.running + j.left[party]
}
