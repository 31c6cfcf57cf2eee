package bunch

import "time"

// maxOwed is how many answers to closes a peer may owe for as long as it likes; each keeps 582 bytes here, 4.5 MiB in all. An
// honest peer whose world hangs in the middle of a tick holds its answers back. With a receive limit of 4 MiB it owes fewer: a
// close takes 657 bytes of that until it is fetched, so no more than 6,384 can arrive (TestClosesDuringALongTick). With a higher limit
// it may owe more, but answers them as soon as it ticks; so owing more is a violation only after Config.IdleTimeout.
const maxOwed = 8192

// owed counts the channels that were closed here and whose every entry the peer has acknowledged: it has our close, and owes its own, without
// which this side cannot forget the channel.
type owed struct {
	count int
	since time.Duration // when count last rose above maxOwed
}

func (o *owed) add(now time.Duration) {
	if o.count++; o.count == maxOwed+1 {
		o.since = now
	}
}

// owedAt returns when the peer has owed too many answers for too long.
func (c *Conn) owedAt() (time.Duration, bool) {
	return c.owed.since + c.config.IdleTimeout, c.owed.count > maxOwed
}
