package budget

import (
	"net/netip"
	"sync"
)

// Jobs counts work that a world does for its connections and that may continue after
// their end, because it cannot be interrupted: handlers that wait for a disk, for
// example. The work of ended connections counts for their party, so that a peer that
// reconnects gets no more done. The zero Jobs counts none. It is safe for concurrent use.
type Jobs struct {
	mu   sync.Mutex
	left map[Party]int // jobs of connections that have ended
}

// A Party identifies a peer across all of its connections: by its identity, or by its address
// if it has none. Connections without either are one party. At most one field is set.
type Party struct {
	Identity string
	Address  netip.Prefix // in the form in which package door counts addresses
}

// ConnJobs are the jobs of one connection. The zero ConnJobs has none. The lock
// of its [Jobs] guards it.
type ConnJobs struct {
	running int
	ended   bool  // the connection has ended
	party   Party // for which the jobs count since then
}

// Begin counts one more job of a connection.
func (j *Jobs) Begin(c *ConnJobs) { j.add(c, 1) }

// Return is called when a job of a connection, which may have ended, is finished.
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

// End is called when a connection has ended: from now on its jobs count for the party.
func (j *Jobs) End(c *ConnJobs, party Party) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !c.ended {
		c.ended, c.party = true, party
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
	if j.left[party] += n; j.left[party] == 0 {
		delete(j.left, party)
	}
}

// Of returns how many jobs run for a connection, and for ended connections of its party.
func (j *Jobs) Of(c *ConnJobs, party Party) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return c.running + j.left[party]
}
