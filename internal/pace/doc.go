// Package pace decides how fast bulk data may leave: one [Controller] a connection and path, shared by its transfers.
//
// It is a model of the path in the family of BBR: the bottleneck's rate, from how fast packets arrived, and the least
// delay, from which the queue at the bottleneck follows. It paces at the bottleneck's rate, corrects for the queue that
// it sees, looks for more rate every few round trips, and empties the queue that the look has left. Loss alone does not
// slow it down, up to 10 %; loss with a queue does. When the queue stays though it drains, somebody else fills it, and
// the controller shares as New Reno does until the queue is gone.
//
// The controller is pure: it has no clock and no goroutine. Its owner numbers packets, keeps a [Sample] beside each,
// detects losses, and tells the controller what became of them; [Controller.Next] says when the next packet may leave.
// Arrival times are the receiver's; its clock needs no relation to the sender's, for only differences count.
package pace
