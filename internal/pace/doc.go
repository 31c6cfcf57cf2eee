// Package pace decides how fast bulk data may leave: one [Controller] a connection and path, shared by its transfers.
//
// It is a model of the path in the family of BBR (draft-ietf-ccwg-bbr): the bottleneck's rate, from the curve of arrivals,
// and the least delay, from which the queue at the bottleneck follows. It paces at that rate, steers for a queue of a few
// packets as TCP Vegas does, looks for more rate every few rounds, and empties the queue that a look has left.
//
// It begins with what a train of packets shows, or else with 32 packets in a round trip. The first flight of a long transfer is short; what
// arrives of it tells whether others fill the path already, and a newcomer begins with what they leave.
//
// What a queue is and what weather: delays that every round comes up to are jitter or clumps, not a queue of ours (calm), and what
// the path held up while it stood still tells of neither a queue nor a rate (stand).
// A lost packet is judged by the queue that its neighbours met: losses in low queues are random, and do not slow it down up
// to 10 %; those in high queues beyond that are congestion, however few (congestion). Loss above 15 % that lasts halves
// whatever is believed (brake, RFC 8084), and losses that were none give back what they cost (undo). Where somebody else
// fills the queue, or it is too short to be seen, it shares as New Reno does until the queue is gone (Compete).
//
// The scenes of internal/scenes show what comes of it in weather, in crowds and beside others (RFC 9743).
//
// The controller is pure: it has no clock and no goroutine. Its owner numbers packets, keeps a [Sample] beside each,
// detects losses, and tells the controller what became of them; [Controller.Next] says when the next packet may leave.
// Arrival times are the receiver's; its clock needs no relation to the sender's, for only differences count.
package pace
