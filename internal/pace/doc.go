// Package pace decides how fast bulk data is sent. There is one [Controller]
// for each connection and path, shared by its transfers.
//
// A Controller is a model of the path in the family of BBR (draft-ietf-ccwg-bbr): the
// bottleneck's rate, from the curve of arrivals, and the least delay, from which the queue at
// the bottleneck follows. It paces at that rate, steers for a queue of a few packets as TCP
// Vegas does, looks for more rate every few rounds, and empties the queue that a look has left.
//
// It starts at the rate that a train of packets has shown (see [Train]), or else with 32
// packets in a round trip. The first flight of a long transfer is short: what arrives of it
// shows whether others fill the path already, and then the controller takes what they leave.
//
// A delay is not always a queue. Delays that some packets of every round have, and
// others have not, are jitter, or deliveries in clumps (calm). Packets that the path
// held up while it delivered nothing at all show neither a queue nor a rate (stand).
//
// A loss is not always congestion. A lost packet is judged by the queue that its
// neighbours met (congestion). Losses in low queues are random, and cost no rate up to 10
// %; in high queues any loss beyond the random ones is congestion. If more than 15 % are
// lost for some rounds, the rate is halved whatever the model says (brake, RFC 8084). If
// packets that counted as lost arrive after all, what the losses cost is restored (undo).
//
// Random losses do not depend on how much is sent. Those of a policer, of CoDel,
// and of a queue of a few packets, which no delay shows, do. So losses that last
// for seconds are tested: the controller yields, and sees whether they go (Yield).
//
// If others fill the queue, the controller shares as New Reno does (Compete), until
// the queue is gone. It also does so if losses went with a Yield, or if a quarter of
// the packets is lost over no queue. Then it doubles its window now and then, again
// and again, until losses grow with it. If they do not, they are random after all,
// and it stops sharing (sharing). A flood of losses at a rate which the path had
// carried may be a spell of a radio: after it that rate is tried again (regain).
//
// A path that has become longer looks like a queue that stands. But a queue moves when we
// drain our part of it, and stands on one way alone. What does not move, or makes both ways
// longer, is the path's own delay, and the controller starts again (stay, bothWays, unmoved).
//
// Many controllers that share a path take each other's queue for a rival's. So all controllers
// that compete empty the queue at the same times of the day, and see whether it was theirs (dips).
//
// # Words
//
//   - round: a round trip of data, from the sending of one packet until one
//     that was sent after it is acked
//   - queue: how much longer than the least delay a packet took on the way
//     there, without jitter; it stands while no packet of a round met less
//   - target and aim: the standing queue that is too much, and the shorter one
//     for which cruising steers
//   - grain: the time that a packet takes at our share of the bottleneck
//   - product: the bandwidth-delay product
//   - reach: the round trip that a window must span, including the jitter of both ways
//   - look: a trial of more rate (Up); push is its gain, payback the gain of the Drain after it
//   - dip: a round trip in which the path is left half empty, to see its least delay (Dip)
//   - stand: a time in which the path delivered nothing; calm: the delays to
//     which every round of the last seconds rose
//   - room: what a queue that is not full has left; shallow and short: of a
//     queue that is full before a delay shows it
//
// The scenes of internal/scenes show the controller on bad paths, in crowds,
// and beside other algorithms (RFC 9743).
//
// The controller is pure: it has no clock and no goroutine. Its owner keeps a
// [Sample] for each packet, detects losses, and reports what became of the
// packets. [Controller.Next] returns when the next packet may be sent. Arrival
// times are the receiver's. Its clock may begin anywhere, because only differences
// count, and the controller corrects for a clock that runs at another speed.
package pace
