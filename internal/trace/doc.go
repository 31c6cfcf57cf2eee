// Package trace records calls, packets and handlers in a file that the viewer at
// ui.perfetto.dev can open.
//
// A [Writer] collects events in a buffer of fixed size and writes them from a separate
// goroutine. Events may be added from any goroutine. Adding an event never waits for the
// file, only for other goroutines that add events.
//
// The encoder uses no clock, goroutine or lock. It turns events into Perfetto's TracePackets.
// They form a track group for the world. Within it is a group for each connection, with
// tracks for packets, acks, losses and counters, and two tracks for each actor: one for calls
// sent on the actor and one for calls received.
//
// Perfetto's slices (a call or a handler from start to end) may overlap. The encoder spreads
// them over lanes, which are tracks with the same name and parent that the viewer draws as
// one.
//
// A file is a sequence of TracePackets, each as field 1 of the message Trace. So a file that
// was cut off is readable up to the cut, and two files may be concatenated.
package trace
