// Package recovery holds what machines that send packets know of their path. Of packets that left, [Ring] keeps the records, [RTT] measures
// the round trips, [Losses] decides which are lost, and [BlackHole] notices that large ones vanish. [Gate] bounds the bulk in flight in QUIC's
// datagrams, so that play does not wait behind it. Of packets that arrive, [Number] completes a number of which only the low bits are on the
// wire, and [Window] finds copies. [Path], [Room] and [Content] are what a carrier and its machines tell each other.
//
// Everything here is pure: now is an argument, and never goes back. Where it is a time.Duration, it is at least 0 and counts from an epoch
// that the owner chose. Zero values are ready to use.
package recovery
