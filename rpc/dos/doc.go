// Package dos detects clients whose calls cost a server too much, and decides whether to block
// their calls, log them or kick them. It is a pure machine, which rpc.Config.DoS puts in front
// of the handlers of a server. UE: RPC DoS detection ([GameNetDriver RPCDoSDetection]).
//
// A [Profile] is a list of states, from Normal to Kick. For each client, the detector
// counts calls, bytes and the time of handlers, by frame and by second. The counts include
// all methods, and all connections of one identity, so that a client that reconnects is
// still in the state in which it left. A call with which a client reaches a quota of a
// higher state puts the client in that state. A state may limit how often each method runs
// (further calls are blocked, and the connection continues), may log, and may kick.
//
// A client falls back to the highest state that has not cooled off: one of whose
// quotas was reached, or whose limits blocked a call, within the state's Cooloff.
//
// A frame is a Dispatch of the world. Seconds are whole seconds of the detector's
// own clock: a window of 4 s is the current second and the three before it.
//
// Unreal escalates from state to state, and stops at the first whose quotas are not reached.
// This detector enters the highest state of which a quota is reached, so that a profile need
// not repeat the quotas of every kind in every state. Unreal does not measure bytes.
package dos
