package pace

import "time"

// neighbours are packets that arrived, in the order of sending. A lost packet is judged by the queues that those beside it have met.
type neighbours struct {
	places latest[neighbour]
	newest instant // when the packet left that arrived last
}

// neighbour is a packet that arrived, with the queue that it met.
type neighbour struct {
	sent  instant
	queue time.Duration
}

// add adds a packet that arrived, unless it left less than step after the newest neighbour: with a 64th of the base round trip they reach back for
// four round trips. It returns the greater of the packet's queue and its predecessor's, because a lost packet is judged by two queues, too: in
// jitter the greater of two delays looks like a deep queue far more often than a single one. gap is how long before it the packet left that arrived
// last.
func (n *neighbours) add(sent instant, queue, step time.Duration) (met, gap time.Duration) {
	predecessor := n.at(0)
	met, gap = max(queue, predecessor.queue), sent-n.newest
	n.newest = sent
	if sent-predecessor.sent >= step {
		n.places.add(neighbour{sent, queue})
	}
	return met, gap
}

// at returns the neighbour that is so many before the newest one, or the zero neighbour when that one is not kept.
func (n *neighbours) at(before int) neighbour {
	if before >= min(n.places.next, kept) {
		return neighbour{}
	}
	return *n.places.at(n.places.next - 1 - before)
}

// met returns the greater of the queues that the packets just before and just after a lost one have met. known is false when they left more than
// apart from each other, too far to show that a low queue was low between them.
func (n *neighbours) met(sent instant, apart time.Duration) (queue time.Duration, known bool) {
	after := instant(0)
	for i := range kept {
		m := n.at(i)
		switch {
		case m.sent == 0:
			return queue, false
		case m.sent > sent:
			after, queue = m.sent, m.queue
		default:
			return max(queue, m.queue), after > 0 && after-m.sent <= apart
		}
	}
	return queue, false
}
