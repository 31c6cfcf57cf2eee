package bunch

import "fmt"

// After holds back all messages of a channel until the peer has acknowledged all of an earlier one, its close included. So the peer takes
// all of earlier before anything of number; nothing else is ordered between channels. It costs a round trip. Earlier must be
// closed here, and nothing sent on number yet. When all of earlier is acknowledged already, After does nothing.
func (c *Conn) After(number, earlier uint64) error {
	if c.err != nil {
		return c.err
	}
	ch, before := c.channels.find(number), c.channels.find(earlier)
	switch {
	case ch == nil:
		return c.closedError(number)
	case before == nil || before.outClosed && before.first == before.next:
		return nil
	case !before.outClosed || before.later != nil:
		return fmt.Errorf("bunch: channel %d cannot come after channel %d, which is not closed, or another one comes after", number, earlier)
	case ch.earlier != nil:
		return fmt.Errorf("bunch: channel %d cannot come after channel %d: it comes after channel %d", number, earlier, ch.earlier.number)
	case ch.next > 0 || ch.unreliable.len() > 0 || ch.outClosed:
		return fmt.Errorf("bunch: channel %d cannot come after channel %d: something was sent on it", number, earlier)
	}
	ch.earlier, before.later = before, ch
	return nil
}

// releaseLater lets the channel that comes after ch send, once all of ch is acknowledged.
func (c *Conn) releaseLater(ch *channel) {
	later := ch.later
	if later == nil || ch.first < ch.next {
		return
	}
	ch.later, later.earlier = nil, nil
	c.schedule(later)
	c.changed = true
}
