// Package pace decides how fast bulk data may leave: one [Controller] a connection and path, shared by its transfers.
//
// It is a model of the path in the family of BBR (draft-ietf-ccwg-bbr): the bottleneck's rate, from the curve of arrivals,
// and the least delay, from which the queue at the bottleneck follows. It paces at that rate, steers for a queue of a few
// packets as TCP Vegas does, looks for more rate every few rounds, and empties the queue that a look has left.
//
// It starts at the rate that a train of packets has shown (see [Train]), or else with 32 packets in a round trip. The first flight of a long
// transfer is short: what arrives of it tells whether others fill the path already, and then the controller takes what they leave.
//
// A delay is not always a queue. Delays that some packets of every round have, and others have not, are jitter, or deliveries in clumps (calm).
// Packets that the path held up while it delivered nothing at all tell of neither a queue nor a rate (stand).
//
// A loss is not always congestion. A lost packet is judged by the queue that its neighbours met (congestion): losses in low queues are random,
// and cost no rate up to 10 %; in high queues any loss beyond the random ones is congestion. When more than 15 % are lost for some rounds, the
// rate is halved whatever the model says (brake, RFC 8084). When packets that counted as lost arrive after all, what the losses cost is given
// back (undo).
//
// Random losses do not depend on how much is sent. Those of a policer do, of CoDel, and of a queue of a few packets, which no delay shows. So losses
// that last for seconds are tested: the controller yields, and sees whether they go (Yield).
//
// Where others fill the queue, the controller shares as New Reno does (Compete), until the queue is gone. So it does where losses went with a Yield,
// or a quarter is lost over no queue. There it doubles its window now and then, again and again, until losses grow with it; when they do not, they
// are random after all, and it stops sharing (sharing). A flood that came upon a rate which the path
// had carried may be a spell of a radio: behind it that rate is tried again (regain).
//
// A path that has become longer looks like a queue that stands. But a queue moves when we drain our part of it, and stands on one way alone: what
// does not move, or makes both ways longer, is the path's own delay, and the controller begins anew (stay, bothWays, unmoved).
//
// Many controllers that share a path take each other's queue for a rival's. So all who compete empty the queue at the same times of the day, and
// see whether it was theirs (dips).
//
// # Words
//
//   - round: a round trip of data, from one packet's leaving until one that left after it is acked
//   - queue: how much longer than the least delay a packet took on the way there, jitter apart; it stands while no packet of a round met less
//   - target and aim: the standing queue that is too much, and the shorter one for which cruising steers
//   - grain: the time that a packet takes at our share of the bottleneck
//   - reach: the round trip that a window must span, with the jitter of both ways
//   - look: a trial of more rate (Up); push is its gain, payback the gain of the Drain behind it
//   - dip: a round trip in which the path is left half empty, to see its least delay (Dip)
//   - stand: a time in which the path delivered nothing; calm: the delays to which every round of the last seconds rose
//   - room: what a queue that is not full leaves; shallow and short: of a queue that is full before a delay shows it
//
// The scenes of internal/scenes show the controller on bad paths, in crowds, and beside other algorithms (RFC 9743).
//
// The controller is pure: it has no clock and no goroutine. Its owner numbers packets, keeps a [Sample] beside each,
// detects losses, and tells the controller what became of them; [Controller.Next] says when the next packet may leave.
// Arrival times are the receiver's; its clock may begin anywhere, for only differences count, and a speed that differs is corrected for.
package pace
