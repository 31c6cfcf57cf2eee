// Package recovery holds what the machines that send over QUIC's datagrams know of their path: [RTT], the round trip, and
// [Gate], which says how much bulk may be in flight in front of play.
//
// Everything here is pure: now is an argument, the time since an epoch of the owner's, at least 0, and never runs back.
// Zero values are ready to use.
package recovery
