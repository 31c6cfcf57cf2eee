// Package recovery holds what machines that send packets know of their path: [RTT], the round trip, [Ring], which remembers
// what left, [Losses], which says what is lost, [BlackHole], which notices that large packets vanish, and [Gate], which says
// how much bulk may be in flight in front of play over QUIC's datagrams.
//
// Everything here is pure: now is an argument, the time since an epoch of the owner's, at least 0, and never runs back.
// Zero values are ready to use.
package recovery
