// Package dos finds the clients whose calls cost a server too much, and says what to do with them: a pure machine, which
// rpc.Config.DoS puts before the handlers of a server. UE: RPC DoS detection ([GameNetDriver RPCDoSDetection]).
//
// A [Profile] is a row of states, from Normal to Kick. What a client uses, in calls, in bytes and in the time of handlers, is
// counted a frame and a second, over all of its methods, and over all connections of its identity, so that who reconnects
// begins where he left. Who reaches a quota of a higher state is in it from that call on; a state may limit how often each
// single method runs (what comes beyond is blocked, and the connection lives), may log, and may kick. A client falls back to
// the highest state that has not cooled off, which means that its quotas were reached, or one of its limits blocked something,
// within its Cooloff.
//
// A frame is a Dispatch of the world. Seconds are whole ones of the detector's own clock: a window of 4 s is the second that
// runs and the three before it.
//
// Unreal goes from state to state, and stops at the first whose quotas are not reached; here one goes to the highest state of
// which any quota is reached, so that a profile need not repeat the quotas of each kind in each state. Unreal measures no bytes.
package dos
