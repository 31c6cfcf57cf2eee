// Package recovery holds what machines that send packets know of their path: [RTT] measures round trips, [Ring] remembers
// packets that left, [Losses] decides which are lost, [BlackHole] notices that large packets vanish, and [Gate] decides
// how much bulk may be in flight over QUIC's datagrams, where play leaves behind it. [Number] completes a packet number
// of which only the low bits are on the wire.
//
// Everything here is pure: now is an argument, the time since an epoch that the owner chose. It is at least 0 and never goes back.
// Zero values are ready to use.
package recovery
