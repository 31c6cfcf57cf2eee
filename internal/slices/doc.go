// Package slices moves messages as chunks of slices, each slice a datagram of its own that is sent again until it is acked:
// the protocol of package chunk over the datagrams of a connection. It is a pure machine: no clock, goroutine or lock.
//
// A [Machine] is one end, for both directions. Its owner gives it messages with Send and takes those of the peer with Take;
// its driver hands it the datagrams that arrive and asks it for those to send. The machine does not know which carrier moves them. What
// it knows of the path is a recovery.Path. Over a path that tells no fates it keeps a window, finds losses and probes by itself; over
// one that tells whether each datagram arrived, it sends whenever it is asked, and adds repair slices at the end.
//
// What a peer makes the machine hold is charged to an [Account].
package slices
