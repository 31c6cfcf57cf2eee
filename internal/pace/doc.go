// Package pace decides how fast bulk data is sent. Each connection has one [Controller] per
// path, shared by all of the connection's transfers.
//
// A Controller models the path in the way of BBR (draft-ietf-ccwg-bbr). It measures the
// bottleneck's rate from the arrival times of packets, and the path's minimum delay. A delay
// above the minimum is the queue at the bottleneck. The controller paces at the measured rate
// and steers for a queue of a few packets, as TCP Vegas does. Every few rounds it tries a
// higher rate, and then drains the queue that the trial made.
//
// A connection starts at the rate shown by a train of packets (see [Train]), or with 32
// packets in the first round trip. The first flight of a long transfer is short. Its arrival
// shows whether others already fill the path. If they do, the controller takes what they
// leave.
//
// A delay isn't always a queue. If some packets of every round are delayed and others aren't,
// the delay is jitter or aggregation (calm). Packets that the path held up while it delivered
// nothing at all show neither a queue nor a rate (stand).
//
// A loss isn't always congestion. The controller judges a lost packet by the queue that its
// neighbours met (congestion). Losses in a low queue are random and cost no rate, up to 10 %
// of the packets. Losses in a high queue beyond that random share are congestion. If more
// than 15 % of the packets are lost for some rounds, the controller halves the rate whatever
// the model says (brake, RFC 8084). If packets declared lost arrive after all, the controller
// restores the rate they cost (undo).
//
// Random losses don't depend on the sending rate. Losses caused by a policer, by CoDel or by
// a queue of only a few packets do, although no delay shows them. So when losses last for
// seconds, the controller sends less for a while and watches whether they go (Yield).
//
// If others fill the queue, the controller competes with them as New Reno does (Compete)
// until the queue is gone. It does the same if losses went with a Yield, or if a quarter of
// the packets is lost without a queue. On such a path it doubles its window from time to
// time, until losses grow with the window. If they don't grow, they are random, and the
// controller stops competing (sharing).
//
// A flood of losses at a rate that the path had carried may be a radio fade. After the flood
// the controller tries that rate again (regain).
//
// A path that has become longer looks like a standing queue. But a queue shrinks when the
// controller drains its part of it, and a queue delays one direction only. If the delay
// doesn't shrink, or both directions are delayed, the path itself is longer, and the
// controller starts again (stay, bothWays, unmoved).
//
// Controllers that share a path can't tell each other's queues from a rival's. So all
// competing controllers drain the queue at the same times of the day, and see whether the
// queue was theirs (dips).
//
// # Terms
//
//   - round: one round trip of data, from the sending of a packet until the first ack of a
//     packet sent after it
//   - queue: a packet's one-way delay above the minimum, without jitter; a queue stands if
//     every packet of a round met it
//   - target and aim: the standing queue that is too long, and the shorter one that cruising
//     steers for
//   - grain: the time a packet takes at our share of the bottleneck
//   - product: the bandwidth-delay product
//   - reach: the round trip that a window must span, including the jitter of both directions
//   - look: a trial of a higher rate (Up); push is its gain, payback the gain of the Drain
//     after it
//   - dip: a round trip in which the path is left half empty, to measure its minimum delay
//     (Dip)
//   - stand: a time in which the path delivered nothing
//   - calm: the delay that every round of the last seconds reached without a queue
//   - room: the free part of a queue that isn't full
//   - shallow and short: said of a queue that is full before a delay shows it
//   - play: game traffic, which isn't bulk and shouldn't wait
//   - fate: whether a packet arrived or was lost
//   - train: packets sent back to back when a connection opens, to measure the path
//
// The scenes of internal/scenes show the controller on bad paths, in crowds and beside other
// algorithms (RFC 9743).
//
// The controller is pure: it has no clock and no goroutine. Its owner keeps a [Sample] for
// each packet, detects losses, and reports each packet's fate. [Controller.Next] returns the
// time at which the next packet may be sent. Arrival times are the receiver's. The receiver's
// clock may have any epoch, because only differences matter. The controller corrects for a
// clock that runs at another speed.
package pace
