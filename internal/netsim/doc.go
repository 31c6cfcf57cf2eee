// Package netsim emulates bad networks in virtual time. A seed makes a run repeatable.
//
// A [Link] is one direction of a path as a pure value: packets are put into it at given times
// and come out later, twice or never. A packet passes the MTU, a bottleneck with a drop-tail
// queue, interruptions, loss, and then delay with jitter, duplication and reordering. Loss
// comes after the bottleneck, so a lost packet has used the link.
//
// A [Pair] drives two pure machines over two links in virtual time. [Pipe] and [Connect] put
// the same links between values of type [PacketConn], which quic-go can use as sockets. They
// work in real time or in the fake time of a testing/synctest bubble and need no goroutine. A
// [Relay] puts the links between real UDP sockets on this machine.
//
// The same [Config], including the seed, and the same packets at the same times produce the
// same fates, bit for bit. A packet's fate says whether it arrives and, if not, why. The fate
// of the nth packet does not depend on earlier fates, except for bursts and the queue.
package netsim
