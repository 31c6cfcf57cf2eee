// Package recovery holds what machines that send packets know of their path. For packets
// sent, [Ring] keeps records, [RTT] measures round trips, [Losses] decides which packets are
// lost, and [BlackHole] detects that large ones do not arrive. [Gate] limits the bulk in
// flight in QUIC's datagrams, so that play does not wait behind it. For packets received,
// [Number] completes a number of which only the low bits are on the wire, and [Window] finds
// copies. [Path], [Room] and [Content] are passed between a carrier and its machines.
//
// All types are pure: now is an argument, and never runs back. If it is a time.Duration, it
// is at least 0 and counts from an epoch that the owner chose. Zero values are ready to use.
package recovery
