package bunch

import "time"

const (
	// standingTime is how long unreliable messages may wait at every tick before the path counts as saturated. UE: two
	// ticks of credit (QueuedBits), at 30 Hz.
	standingTime = 66 * time.Millisecond
	// maxStanding is how many bytes of them may wait on a saturated path; the oldest of the channel make room. At 50 kB/s it
	// is 0.6 s, where maxUnreliable could be 5 s.
	maxStanding = 32 << 10
)

// saturation is what keeps unreliable messages and bulk waiting.
type saturation struct {
	held     bool          // unreliable and tracked messages wait for the rate
	bulkHeld bool          // bulk waits for the rate
	standing bool          // at every Cork since, some unreliable message of an earlier tick still waited
	since    time.Duration // of standing
	young    int           // unreliable messages that were queued since the last tick ended
	stale    time.Duration // unreliable and tracked messages that were queued before it waited through an outage
}

// backlog is what waits of unreliable messages. Those without bytes count, too.
type backlog struct{ messages, bytes int }

func (b *backlog) add(messages, bytes int) { b.messages, b.bytes = b.messages+messages, b.bytes+bytes }

// Hold keeps unreliable messages back, tracked ones with them, or bulk, until the next call: a rate of the owner's is used up. Acks, control,
// probes, and reliable messages of the other priorities with their resends pass.
func (c *Conn) Hold(unreliable, bulk bool) {
	c.saturation.held, c.saturation.bulkHeld = unreliable, bulk
}

// Waiting reports whether unreliable or tracked messages, and bulk, would leave now if nothing were held.
func (c *Conn) Waiting() (unreliable, bulk bool) {
	fresh, lv := c.freshAllowed(), &c.levels[bulkLevel]
	bulk = c.windowOpen() && (lv.resend.len() > 0 || fresh && lv.fresh.len() > 0)
	return fresh && c.unreliables.messages+c.tracked.waiting.len() > 0, bulk
}

// Unreliable returns how many bytes the payloads of the unreliable messages have that wait, and whether the path, or the
// rate, cannot take them: at every Cork for 66 ms some of an earlier tick were left.
func (c *Conn) Unreliable() (bytes int, saturated bool) {
	s := &c.saturation
	return c.unreliables.bytes, s.standing && c.now-s.since >= standingTime
}

// look notes at the beginning of a tick whether the last one's unreliable messages have left.
func (s *saturation) look(now time.Duration, waiting int) {
	old := waiting > s.young
	if old && !s.standing {
		s.since = now
	}
	s.standing = old
}

// crowded reports whether an unreliable message of so many bytes is more than may wait now. maxUnreliable bounds memory, so
// it counts what a message takes beside its bytes; maxStanding bounds the time that the path needs for them.
func (c *Conn) crowded(size int) bool {
	after := c.unreliables
	after.add(1, size)
	_, saturated := c.Unreliable()
	return saturated && after.bytes > maxStanding || unreliablePrice(after.messages, after.bytes) > maxUnreliable
}
