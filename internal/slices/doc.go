// Package slices sends messages as chunks of slices. Each slice is its own datagram and is
// sent again until it is acked. This is the protocol of package chunk over a connection's
// datagrams. The package is a pure machine without a clock, goroutine or lock.
//
// A [Machine] is one end, for both directions. Its owner passes messages to Send and gets the
// peer's messages from Take. Its driver passes it the datagrams that arrive and asks it for
// datagrams to send. The machine does not know which carrier sends them; it knows the path as
// a recovery.Path.
//
// Some paths report the fate of each datagram: whether it arrived or was lost. On such a
// path, the machine sends whenever it is asked and adds repair slices at the end. On any
// other path it keeps a window, detects losses and probes by itself.
//
// Whatever a peer makes the machine hold is charged to an [Account].
package slices
