// Package netsim emulates a bad network, seeded and in virtual time.
//
// A [Link] is one direction of a path as a pure value: packets go in with a time and come out later, twice or never. A packet passes, in
// this order, the MTU, a bottleneck with a queue that drops at its tail, dark periods, loss, and then delay with jitter, duplication and
// reordering. Loss comes after the bottleneck, so a lost packet has used the link.
//
// A [Pair] drives two pure machines over two links in virtual time. [Pipe] and [Connect] put the same links between
// values of [PacketConn], which quic-go takes for sockets, in real time or in the fake time of a testing/synctest bubble;
// no goroutine stands behind them. A [Relay] puts the links between real UDP sockets on this machine.
//
// The same [Config], seed included, and the same packets at the same times give the same fates bit for bit. The fate of
// the nth packet does not depend on what became of the packets before it, save for bursts and the queue.
package netsim
