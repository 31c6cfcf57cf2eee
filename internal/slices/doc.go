// Package slices sends messages as chunks of slices. Each slice is a datagram of
// its own that is sent again until it is acked: the protocol of package chunk over
// the datagrams of a connection. It is a pure machine: no clock, goroutine or lock.
//
// A [Machine] is one end, for both directions. Its owner passes it messages with Send
// and takes those of the peer with Take. Its driver passes it the datagrams that
// arrive and asks it for those to send. The machine does not know which carrier sends
// them; it knows the path as a recovery.Path. On a path that reports no fates, it
// keeps a window, detects losses and probes by itself. On one that reports the fate
// of each datagram, it sends whenever it is asked, and adds repair slices at the end.
//
// Whatever a peer makes the machine hold is charged to an [Account].
package slices
