// Package recovery has the pieces from which machines that send packets build loss recovery and
// congestion control.
//
// For packets that are sent, a [Ring] keeps the records, [RTT] measures round trips, [Losses]
// decides which packets are lost, and [BlackHole] notices if large ones don't arrive. A [Gate]
// limits how much bulk is in flight in QUIC's datagrams, so that play doesn't have to queue
// behind it. (Bulk is the traffic of transfers, which may wait. Play is everything else that a
// game sends.)
//
// For packets that are received, [Number] completes numbers whose high bits weren't sent, and a
// [Window] detects duplicates.
//
// Carriers and their machines tell each other about the path with [Path], [Room] and [Content].
//
// None of this has a clock. The time is an argument, now, which never decreases. If it's a
// time.Duration, it counts from an epoch that the owner chooses, and is never negative. Zero
// values are ready to use.
package recovery
