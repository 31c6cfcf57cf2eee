// Package recovery tracks the state of the path for machines that send packets.
//
// For packets sent, [Ring] keeps records, [RTT] measures round trips, [Losses] decides
// which packets are lost, and [BlackHole] detects that large ones do not arrive. [Gate]
// limits the bulk in flight in QUIC's datagrams, so that play does not queue behind it.
// Bulk is the traffic of transfers, which may wait. Play is the game's other traffic.
//
// For packets received, [Number] completes a number whose high bits are not sent, and
// [Window] detects duplicates.
//
// [Path], [Room] and [Content] are passed between a carrier and its machines.
//
// All types are pure: the time is the argument now, which never decreases. If now is a
// time.Duration, it is at least 0 and counts from an epoch that the owner chose. Zero
// values are ready to use.
package recovery
