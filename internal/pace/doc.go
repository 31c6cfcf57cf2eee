// Package pace is a congestion controller. It decides how fast bulk data is sent. Each
// connection has one [Controller] per path, which all of the connection's transfers share.
//
// A Controller keeps a model of the path, in the way of BBR (draft-ietf-ccwg-bbr). It measures
// the bottleneck's rate from the arrival times of packets, and the path's minimum delay. Any
// delay above the minimum is a queue at the bottleneck. The controller paces at the rate that it
// has measured, and steers for a queue of a few packets, as TCP Vegas does. Every few rounds it
// tries a higher rate, and then drains the queue that this has made.
//
// A connection starts at the rate that a train of packets has shown (see [Train]), or with 32
// packets in the first round trip. A long transfer begins with a short flight, whose arrival
// shows whether others already fill the path. If they do, the controller takes only what they
// leave.
//
// A delay isn't always a queue. If only some packets of each round are delayed, it's jitter or
// aggregation (calm). If the path has held up packets while it delivered nothing at all, they
// show neither a queue nor a rate (stand).
//
// A loss isn't always congestion either. The controller judges a lost packet by the queue that
// its neighbours have met (congestion). Losses in a low queue are random, and don't cost any
// rate as long as they are no more than 10 % of the packets. What is lost in a high queue beyond
// this random share is congestion. If more than 15 % of the packets are lost for some rounds,
// the controller halves the rate, whatever the model says (brake, RFC 8084). If packets arrive
// after all that were declared lost, it restores the rate that they have cost (undo).
//
// Random losses don't depend on how fast we send. Those of a policer, of CoDel or of a queue of
// only a few packets do, even though we see no delay. So when losses last for seconds, the
// controller sends less for a while, to see whether they stop (Yield).
//
// When others fill the queue, the controller competes with them like New Reno until the queue is
// gone (Compete). It also competes if losses have stopped with a Yield, or if a quarter of the
// packets is lost without a queue. On such a path it doubles its window from time to time until
// losses grow with the window. If they don't, they are random, and it stops competing (sharing).
//
// If there's a flood of losses at a rate that the path used to carry, it may be a radio fade.
// The controller tries that rate again when the flood is over (regain).
//
// A path that has become longer looks like a standing queue. But a queue shrinks when the
// controller drains its part of it, and it delays only one direction. If the delay doesn't
// shrink, or if both directions are delayed, it's the path that is longer, and the controller
// starts again (stay, bothWays, unmoved).
//
// Controllers that share a path can't tell each other's queues from those of a rival. For this
// reason all competing controllers drain the queue at the same times of the day, and see whether
// it was theirs (dips).
//
// # Terms
//
//   - round: one round trip of data, from when a packet is sent until the first ack of a
//     packet that was sent after it
//   - queue: by how much a packet's one-way delay exceeds the minimum, not counting jitter; a
//     queue stands if every packet of a round has met it
//   - target and aim: the standing queue that is too long, and the shorter one that we steer
//     for while cruising
//   - grain: how long a packet takes at our share of the bottleneck
//   - product: the bandwidth-delay product
//   - reach: the round trip that a window must span, including the jitter of both directions
//   - look: a trial of a higher rate (Up); push is its gain, and payback the gain of the Drain
//     after it
//   - dip: a round trip in which we leave the path half empty, to measure its minimum delay
//     (Dip)
//   - stand: a time in which the path has delivered nothing
//   - calm: the delay that every round of the last seconds has reached without a queue
//   - room: the free part of a queue that isn't full
//   - shallow and short: said of a queue that is full before we can see it by its delay
//   - play: the game's own traffic, which isn't bulk and shouldn't have to wait
//   - fate: whether a packet has arrived or was lost
//   - train: packets sent back to back when a connection opens, to measure the path
//
// The scenes of internal/scenes show the controller on bad paths, in crowds and beside other
// algorithms (RFC 9743).
//
// The controller has no clock and no goroutine. Its owner keeps a [Sample] for each packet,
// detects losses, and reports each packet's fate. [Controller.Next] returns when the next packet
// may be sent. Arrival times are the receiver's, whose clock may have any epoch, because only
// differences matter. If it runs at the wrong speed, the controller corrects for that.
package pace
