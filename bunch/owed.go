package bunch

import "time"

// maxOwed is how many answers to closes a peer may owe for as long as it likes; each keeps 582 bytes here, 4.5 MiB in all. An
// honest peer whose world hangs in the middle of a tick holds its answers back, yet owes fewer when its receive limit is 4 MiB: a
// close takes 657 of that until it is fetched, so no more than 6,384 can arrive (TestClosesDuringALongTick). With a higher limit
// it may owe more, which it answers as soon as it ticks: so more is a violation only after Config.IdleTimeout.
const maxOwed = 8192

// owed counts the channels that were closed here and of which the peer acknowledged all: it has taken the close, and owes the
// answer. Until that comes this side can not forget the channel.
type owed struct {
	count int
	since time.Duration // when they became more than maxOwed
}

func (o *owed) add(now time.Duration) {
	if o.count++; o.count == maxOwed+1 {
		o.since = now
	}
}

// owesAnswer reports whether the peer has all of ch, which was closed here, and has not answered.
func (ch *channel) owesAnswer() bool { return ch.outClosed && !ch.inClosed && ch.first == ch.next }

// owedAt returns when the peer has owed too many answers for too long.
func (c *Conn) owedAt() (time.Duration, bool) {
	return c.owed.since + c.config.IdleTimeout, c.owed.count > maxOwed
}
