// Package netsim emulates bad networks, in virtual time, and repeatably by a seed.
//
// A [Link] is one direction of a path as a pure value: packets are put into it at a time, and
// come out later, twice or never. A packet passes, in this order, the MTU, a bottleneck with a
// queue that drops at its tail, interruptions, loss, and then delay with jitter, duplication
// and reordering. Loss is after the bottleneck, so a lost packet has used the link.
//
// A [Pair] drives two pure machines over two links in virtual time. [Pipe] and
// [Connect] put the same links between values of [PacketConn], which quic-go can use
// as sockets, in real time or in the fake time of a testing/synctest bubble. They need
// no goroutine. A [Relay] puts the links between real UDP sockets on this machine.
//
// The same [Config], including the seed, and the same packets at the same times
// produce the same fates, bit for bit. The fate of the nth packet does not
// depend on the fates of the packets before it, except for bursts and the queue.
package netsim
