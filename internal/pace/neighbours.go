package pace

import "time"

// neighbours are packets that have arrived, in sending order. We judge a lost packet by the
// queues that the packets around it have met.
type neighbours struct {
	places ring[neighbour]
}

// A neighbour is a packet that has arrived, and the queue that it met.
type neighbour struct {
	sent  instant
	queue time.Duration
}

// add adds a packet that has arrived, unless it was sent less than step after the newest
// neighbour. A step is a 64th of the base round trip, so neighbours reach back for four round
// trips.
//
// It returns the packet's queue or its predecessor's, whichever is greater. Since a lost packet
// is judged by two queues, one that has arrived must be too: in jitter, the greater of two
// delays looks like a deep queue far more often than a single one does.
func (n *neighbours) add(sent instant, queue, step time.Duration) (met time.Duration) {
	predecessor := n.at(0)
	if sent-predecessor.sent >= step {
		n.places.add(neighbour{sent, queue})
	}
	return max(queue, predecessor.queue)
}

// at returns the neighbour that is so many places before the newest. It returns the zero
// neighbour if we don't have it any more.
func (n *neighbours) at(before int) neighbour {
	if before >= min(n.places.next, ringSize) {
		return neighbour{}
	}
	return *n.places.at(n.places.next - 1 - before)
}

// met returns the greater of the queues that the packets just before and just after a lost one
// have met.
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
