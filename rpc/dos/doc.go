// Package dos detects clients whose calls cost a server too much, and decides whether to block
// their calls, log them or kick them. UE: RPC DoS detection ([GameNetDriver RPCDoSDetection]).
// "UE:" stands for the counterpart in Unreal Engine.
//
// The detector is a pure state machine, which rpc.Config.DoS puts in front of a server's handlers.
//
// A [Profile] is a list of states, from Normal to Kick. For each client, the detector counts
// calls, bytes and how long handlers take, by frame and by second. It adds up all methods, and
// all connections of one identity, so a client that reconnects is still in the state in which it
// left.
//
// When a client's call reaches a quota of a higher state, the client enters that state. There,
// each method may be limited to a certain load. Calls in excess of that are blocked, but the
// connection continues. A state may also log, and may kick.
//
// A client falls back to the highest state that hasn't cooled off yet. A state has cooled off once
// its Cooloff has passed without one of its quotas being reached or its limits blocking a call.
//
// A frame is a Dispatch of the world. Seconds are whole seconds of the detector's own clock, so a
// window of 4 s is the current second and the three before it.
//
// Unreal escalates from state to state, and stops at the first whose quotas are not reached.
// This detector enters the highest state with a quota that was reached, so a profile needn't
// repeat the quotas of every kind in every state. Unreal does not measure bytes.
package dos
