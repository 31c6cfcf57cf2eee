package bunch

import "time"

const (
	// The path counts as saturated if, for saturatedAfter, every tick has begun with unreliable
	// messages left over from an earlier tick. It's two ticks at 30 Hz, which is also the credit
	// that Unreal grants before it considers a connection saturated (QueuedBits).
	saturatedAfter = 66 * time.Millisecond

	// maxBacklog is the maximum number of bytes of unreliable messages that we queue on a
	// saturated path. Beyond it, a new message pushes out the oldest messages of its
	// channel. At 50 kB/s, the backlog takes 0.6 s to drain, whereas the 256 KiB of
	// maxUnreliable would take 5 s.
	maxBacklog = 32 << 10
)

// A saturationDetector detects that unreliable messages are queued faster than they can be
// sent, either because the path is too slow or because the owner holds them back to keep to its
// rate.
//
// It relies on the owner to bracket each tick with Cork(true) and Cork(false). Between two ticks,
// there's time to send the messages that the first one queued, so if some of them are still in
// the queue when the next tick begins, we're behind. Once we've been behind for saturatedAfter,
// we're saturated.
type saturationDetector struct {
	behind      bool          // the last tick began with messages left over from an earlier one
	behindSince time.Duration // when behind last became true

	// Messages that don't count as left over, because there has been no chance to send them. A
	// message is deferred while another channel has to be acknowledged first (see Conn.After).
	newUnreliable int    // unreliable messages queued since the last tick ended, not deferred
	newBytes      volume // bytes queued on channels since then, not deferred
	deferred      int    // unreliable messages that are deferred, old and new
}

// A volume is a number of bytes of play (the game's own traffic) and of bulk (transfers, which
// can wait).
type volume struct{ play, bulk int }

// addNew counts bytes that were queued on a channel and aren't deferred.
func (s *saturationDetector) addNew(bytes int, bulk bool) {
	if bulk {
		s.newBytes.bulk += bytes
		return
	}
	s.newBytes.play += bytes
}

// beginTick is called when a tick begins. waiting is the number of unreliable messages in the
// queue, not counting deferred ones.
func (s *saturationDetector) beginTick(now time.Duration, waiting int) {
	wasBehind := s.behind
	s.behind = waiting > s.newUnreliable
	if s.behind && !wasBehind {
		s.behindSince = now
	}
}

// endTick is called when a tick ends. From now on, there's time to send the messages in the queue
// until the next tick begins.
func (s *saturationDetector) endTick() {
	s.newUnreliable = 0
	s.newBytes = volume{}
}

// saturated reports whether we've been behind for long enough.
func (s *saturationDetector) saturated(now time.Duration) bool {
	return s.behind && now-s.behindSince >= saturatedAfter
}

// Unreliable returns the number of bytes of unreliable messages that are queued, and whether
// they saturate the path or the owner's rate. They do if, for 66 ms, every Cork(true) has found
// messages left over from an earlier tick.
func (c *Conn) Unreliable() (bytes int, saturated bool) {
	return c.unreliables.bytes, c.saturation.saturated(c.now)
}

// unreliableFull reports whether there's no room in the queue for another unreliable message of
// size bytes.
//
// There are two limits. maxUnreliable limits memory, so it applies to the cost, which includes
// the overhead of each message. maxBacklog limits the time that the path needs to drain the
// queue, so only the bytes matter.
func (c *Conn) unreliableFull(size int) bool {
	after := c.unreliables
	after.add(1, size)
	if unreliableCost(after.messages, after.bytes) > maxUnreliable {
		return true
	}
	return after.bytes > maxBacklog && c.saturation.saturated(c.now)
}

// countTick updates Stats when a tick begins.
func (c *Conn) countTick() {
	c.stats.Ticks++
	if play, _ := c.leftOver(); play {
		c.stats.TicksSaturated++
	}
}

// leftOver reports whether any play, and whether any bulk, was queued before the last tick
// ended and still hasn't been sent. Deferred messages don't count.
func (c *Conn) leftOver() (play, bulk bool) {
	playBytes := c.tracked.bytes
	for i := range bulkLevel {
		playBytes += c.levels[i].queued - c.levels[i].deferred
	}
	bulkBytes := c.levels[bulkLevel].queued - c.levels[bulkLevel].deferred
	return playBytes > c.saturation.newBytes.play, bulkBytes > c.saturation.newBytes.bulk
}
