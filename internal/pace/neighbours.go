package pace

import "time"

// neighbours holds packets that arrived, in sending order. A lost packet is
// judged by the queues that those beside it have met.
type neighbours struct {
	places latest[neighbour]
}

// A neighbour is a packet that arrived, with the queue that it met.
type neighbour struct {
	sent  instant
	queue time.Duration
}

// add adds a packet that arrived, unless it was sent less than step after the newest neighbour:
// with a 64th of the base round trip neighbours reach back four round trips. It returns the greater
// of the packet's queue and its predecessor's, because a lost packet is judged by two queues too:
// in jitter the greater of two delays looks like a deep queue far more often than a single one.
func (n *neighbours) add(sent instant, queue, step time.Duration) (met time.Duration) {
	predecessor := n.at(0)
	if sent-predecessor.sent >= step {
		n.places.add(neighbour{sent, queue})
	}
	return max(queue, predecessor.queue)
}

// at returns the neighbour that is so many before the newest one, or the zero
// neighbour if that one is not kept.
func (n *neighbours) at(before int) neighbour {
	if before >= min(n.places.next, kept) {
		return neighbour{}
	}
	return *n.places.at(n.places.next - 1 - before)
}

// met returns the greater of the queues that the packets just before and just
// after a lost one have met.
func (n *neighbours) met(sent instant) (queue time.Duration) {
	for i := range kept {
		m := n.at(i)
		switch {
		case m.sent == 0:
			return queue
		case m.sent > sent:
			queue = m.queue
		default:
			return max(queue, m.queue)
		}
	}
	return queue
}
