// Package dos detects clients whose calls cost a server too much. It decides whether to block
// their calls, log them or kick them. UE: RPC DoS detection ([GameNetDriver RPCDoSDetection]).
//
// The detector is a pure state machine. rpc.Config.DoS places it
// before the handlers of a server.
//
// A [Profile] is a list of states, from Normal to Kick. For each client, the detector
// counts calls, bytes and the time of handlers, by frame and by second. The counts
// include all methods, and all connections of one identity. A client that reconnects is
// therefore still in the state in which it left.
//
// A call with which a client reaches a quota of a higher state puts the client in that state.
// A state may limit how often each method runs. Further calls are blocked, and the connection
// continues. A state may also log, and may kick.
//
// A client falls back to the highest state that has not cooled off. A state cools off when,
// for its Cooloff, none of its quotas was reached and its limits blocked no call.
//
// A frame is a Dispatch of the world. Seconds are whole seconds of the detector's own clock.
// A window of 4 s is the current second and the three before it.
//
// Unreal escalates from state to state, and stops at the first whose quotas are not reached.
// This detector enters the highest state that has a reached quota, so a profile need not
// repeat the quotas of every kind in every state. Unreal does not measure bytes.
package dos
