// Package netsim emulates bad networks in virtual time. A seed makes a run repeatable.
//
// A [Link] is one direction of a path, without a clock of its own: packets are put into it at given
// times and come out later, twice or never. A packet passes the MTU, a bottleneck with a drop-tail
// queue, interruptions, loss, and then delay with jitter, duplication and reordering. Loss comes
// after the bottleneck, so a lost packet has used up its share of the bottleneck.
//
// A [Pair] drives two machines over two links in virtual time. [Pipe] and [Connect] put the same
// links between values of type [PacketConn], which quic-go can use as sockets. They work in real
// time or in the fake time of a testing/synctest bubble, and need no goroutine. A [Relay] puts the
// links between real UDP sockets on this machine, and [Emulate] puts them in front of one socket.
//
// The same [Config], including the seed, and the same packets at the same times produce the same
// fates. A packet's [Fate] says whether it arrives and, if not, why. The fate of the nth packet
// doesn't depend on earlier fates, except for bursts and the queue.
package netsim
