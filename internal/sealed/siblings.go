package sealed

import "sync/atomic"

// Siblings counts what the sessions of one owner are doing, because they may share an uplink. It
// is safe for concurrent use.
type Siblings struct {
	starting atomic.Int32 // sessions whose controller is in its Start with bulk to send
}

// A siblingCount is a session's view of one of the counters in Siblings. Like the rest of the
// session, it is used by one goroutine at a time.
type siblingCount struct {
	all     *atomic.Int32 // shared by the siblings; nil if the session has none
	counted bool          // this session is included in all
}

// set adds this session to the counter or removes it, unless that has been done already.
func (c *siblingCount) set(counted bool) {
	if c.all == nil || c.counted == counted {
		return
	}
	c.counted = counted
	if counted {
		c.all.Add(1)
	} else {
		c.all.Add(-1)
	}
}

// count returns how many sessions are counted, or 1 if this session has no siblings.
func (c *siblingCount) count() int {
	if c.all == nil {
		return 1
	}
	return int(c.all.Load())
}
