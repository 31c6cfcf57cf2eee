// Package slices sends messages as chunks of slices. Each slice is a datagram of its own, and is
// resent until it is acked. This is the protocol of package chunk, over the datagrams of a
// connection.
//
// A [Machine] is one end, for both directions. The owner gives it messages with Send and gets
// the peer's with Take. The driver passes it the datagrams that arrive, and asks it for
// datagrams to send. The machine has no clock, no goroutine and no lock. It doesn't know which
// carrier it sends over, only what a recovery.Path says about the path.
//
// There are two kinds of paths. Some report the fate of each datagram, that is, whether it has
// arrived or was lost. On those the machine sends whenever it is asked, and adds repair slices
// at the end. On the others it has to detect losses itself, and has a window and a probe timer.
//
// The machine trusts a peer's acks only so far. On paths that don't report fates, where acks decide
// how much it sends, it withholds a slice now and then (see withholding), and an ack of a slice
// that was not sent is a violation.
//
// An [Account] is charged for whatever a peer makes the machine hold.
package slices
