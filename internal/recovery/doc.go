// Package recovery provides the parts from which machines (state machines that send and receive
// packets) build loss recovery and congestion control.
//
// For packets that are sent, a [Ring] keeps the records, [RTT] estimates round trips, [Losses]
// decides which packets are lost, and [BlackHole] detects that large ones don't arrive. A [Gate]
// limits the bulk in flight in QUIC's datagrams, so that play doesn't have to queue behind it.
// (Bulk is the traffic of transfers, which may wait. Play is everything else that a game sends.)
//
// For packets that are received, [Number] restores numbers whose high bits weren't sent, and a
// [Window] detects duplicates.
//
// Carriers and their machines exchange [Path], [Room] and [Content].
//
// Nothing in this package reads a clock. Methods get the time as an argument, now, which never
// decreases. If it's a time.Duration, it counts from an epoch that the owner chooses, and is never
// negative. Zero values are ready to use.
package recovery
