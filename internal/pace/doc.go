// Package pace is a congestion controller. It decides how fast a connection sends bulk data
// (transfers, as opposed to the game's own traffic). A connection has one [Controller] per path,
// shared by all of its transfers.
//
// Like BBR (draft-ietf-ccwg-bbr), a Controller keeps a model of the path: the bottleneck's rate,
// which it measures from the arrival times of packets, and the path's minimum delay. It takes any
// delay above the minimum for a queue at the bottleneck. The controller paces at the measured rate,
// and like TCP Vegas it tries to keep a few packets in the queue. Every few rounds it tries a
// higher rate, and then drains the queue that the trial built up.
//
// A connection starts at the rate that a train of packets showed (see [Train]) or, without one,
// with 32 packets in the first round trip. If the train showed less than that, the first flight
// begins with another, shorter train (opening). A long transfer begins with a short flight, whose
// arrival shows whether other flows already fill the path. If they do, the controller takes only
// the rate that they leave unused.
//
// A delay isn't always a queue. If only some packets of each round are late, the cause is jitter or
// aggregation (calm). And packets that the path held up while it delivered nothing at all show
// neither a queue nor a rate (stand).
//
// A loss isn't always congestion either. The controller judges a lost packet by the queue that its
// neighbours met (congestion). Losses in a low queue are random, and don't lower the rate as long
// as they are no more than 10 % of the packets. Losses in a high queue are congestion as far as
// they exceed this random share. If more than 15 % of the packets are lost for several rounds, the
// controller halves the rate whatever the model says (brake, RFC 8084). If packets that were
// declared lost arrive after all, it restores the rate from before it reacted to them (undo).
//
// Random losses don't depend on how fast we send. Losses caused by a policer, by CoDel or by a
// queue of only a few packets do, even though we see hardly any delay. So the controller compares
// the packets of its looks with those sent at a lower rate right after them, and packets that met a
// queue with those that met none (blame).
//
// When others fill the queue, the controller competes with them like New Reno until the queue is
// gone (Compete). It also competes if such a comparison shows that losses are its doing, or if a
// quarter of the packets are lost without a queue. On such a path it doubles its window from time
// to time to see whether losses grow with the window. If they don't, they are random, and it stops
// competing (sharing).
//
// A flood of losses at a rate that the path used to carry may be a radio fade, so the controller
// tries that rate again when the flood is over (regain).
//
// When a path becomes longer, it looks as if it had a standing queue. But a queue shrinks when the
// controller drains its part of it, and it delays only one direction. If the delay doesn't shrink,
// or if both directions are delayed, the path itself is longer, and the controller starts again
// (stay, bothWays, unmoved).
//
// Controllers that share a path can't tell each other's queues from a rival's. For this reason all
// competing controllers drain the queue at the same times of day to find out whether it was theirs
// (dips).
//
// # Terms
//
//   - round: one round trip of data, from when a packet is sent until the first ack of a
//     packet that was sent after it
//   - queue: how far a packet's one-way delay exceeds the minimum, not counting jitter; a queue
//     stands if every packet of a round met it
//   - target and aim: the longest standing queue that we tolerate, and the shorter one that we keep
//     while cruising
//   - grain: the transmission time of a packet at our share of the bottleneck's rate
//   - product: the bandwidth-delay product
//   - reach: the round trip that a window must span, including the jitter of both directions
//   - look: a trial of a higher rate (Up); push is its gain, and payback is the Drain
//     that follows, or the gain of that
//   - dip: a round trip in which we leave the path half empty, to measure its minimum delay
//     (Dip)
//   - stand: a period in which the path delivered nothing
//   - calm: the delay that every round of the last seconds reached without a queue
//   - room: the free part of a queue that isn't full
//   - shallow and short: describe a queue that overflows before its delay is long enough to see
//   - play: the game's own traffic, which shouldn't have to wait behind bulk
//   - fate: whether a packet arrived or was lost
//   - train: packets sent back to back when a connection opens, to measure the path
//
// The scenes of internal/scenes show the controller on bad paths, in crowds and beside other
// algorithms (RFC 9743).
//
// The controller has no clock and no goroutine. Its owner keeps a [Sample] for each packet, detects
// losses, and reports each packet's fate. [Controller.Next] returns when the next packet may be
// sent. Arrival times are the receiver's. Its clock may have any epoch, because only differences
// matter, and if it runs at the wrong speed, the controller corrects for that.
package pace
