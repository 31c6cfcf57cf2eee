package pace

import "time"

// neighbours are packets that arrived, in sending order. We judge a lost packet by the queues that
// the packets around it met.
type neighbours struct {
	places ring[neighbour]
}

// A neighbour is a packet that arrived, and the queue that it met.
type neighbour struct {
	sent  instant
	queue time.Duration
}

// add adds a packet that arrived, unless it was sent less than step after the newest neighbour. A
// step is a 64th of the base round trip, so the neighbours cover four round trips.
//
// It returns the packet's queue or its predecessor's, whichever is greater. A lost packet is judged
// by two queues, so one that arrived must be judged by two as well: in jitter, the greater of two
// delays looks like a deep queue far more often than a single one does.
func (n *neighbours) add(sent instant, queue, step time.Duration) (met time.Duration) {
	predecessor := n.at(0)
	if sent-predecessor.sent >= step {
		n.places.add(neighbour{sent, queue})
	}
	return max(queue, predecessor.queue)
}

// free frees the memory of the records.
func (n *neighbours) free() { n.places = ring[neighbour]{} }

// at returns the neighbour that many places before the newest one, or the zero neighbour if that
// has been dropped.
func (n *neighbours) at(before int) neighbour {
	if before >= min(n.places.next, ringSize) {
		return neighbour{}
	}
	return *n.places.at(n.places.next - 1 - before)
}

// met returns the greater of the queues that the packets just before and just after a lost one met.
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
