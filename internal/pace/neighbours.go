package pace

import "time"

// neighbours holds packets that arrived, in sending order. A lost packet is judged by the
// queues that the packets around it met.
type neighbours struct {
	places ring[neighbour]
}

// A neighbour is a packet that arrived, with the queue that it met.
type neighbour struct {
	sent  instant
	queue time.Duration
}

// add adds a packet that arrived, unless it was sent less than step after the newest
// neighbour. With a step of a 64th of the base round trip, neighbours reach back four
// round trips.
//
// add returns the greater of the packet's queue and its predecessor's. A lost packet is
// judged by two queues, so a packet that arrived must be as well: in jitter the greater
// of two delays looks like a deep queue far more often than a single delay.
func (n *neighbours) add(sent instant, queue, step time.Duration) (met time.Duration) {
	predecessor := n.at(0)
	if sent-predecessor.sent >= step {
		n.places.add(neighbour{sent, queue})
	}
	return max(queue, predecessor.queue)
}

// at returns the given number of neighbours back from the newest, 0 being the newest. It
// returns the zero neighbour if that one is gone.
func (n *neighbours) at(before int) neighbour {
	if before >= min(n.places.next, ringSize) {
		return neighbour{}
	}
	return *n.places.at(n.places.next - 1 - before)
}

// met returns the greater of the queues met by the packets just before and just after a
// lost one.
func (n *neighbours) met(sent instant) (queue time.Duration) {
	for i := range ringSize {
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
