// Package dos finds clients whose calls cost a server too much, and decides whether to block, log or kick them. It is a pure machine,
// which rpc.Config.DoS puts before the handlers of a server. UE: RPC DoS detection ([GameNetDriver RPCDoSDetection]).
//
// A [Profile] is a list of states, from Normal to Kick. The detector counts each client's calls, bytes and time of handlers, in each
// frame and second, over all of its methods and over all connections of its identity, so that a client that reconnects
// is in the state in which it left. A client that reaches a quota of a higher state is in that state from that call on. A state may limit
// how often each method runs (further calls are blocked, and the connection lives), may log, and may kick. A client falls back to
// the highest state that has not cooled off: a quota of that state was reached, or its limits blocked a call,
// within its Cooloff.
//
// A frame is a Dispatch of the world. Seconds are whole seconds of the detector's own clock: a window of 4 s is the current second
// and the three before it.
//
// Unreal escalates from state to state, and stops at the first whose quotas are not reached. This detector enters the highest state with
// a quota that is reached, so that a profile need not repeat the quotas of each kind in each state. Unreal does not measure bytes.
package dos
