// Package trace records calls, packets and handlers in a file that the viewer
// at ui.perfetto.dev can open.
//
// A [Writer] collects events in a buffer of fixed size, and writes them from a
// goroutine of its own. Events may be added from any goroutine; adding one
// never waits for the file, only for other goroutines that add theirs.
//
// The encoder, a pure type, turns events into Perfetto's TracePackets. They form a track group
// for the world, within it one for each connection, and within that the tracks of packets, acks,
// losses and counters, and two tracks for each actor: one for the calls sent on it and one for
// those received. Perfetto's slices (a call or a handler from start to end) may overlap; they are
// then spread over lanes, which are tracks of one name and parent that the viewer draws as one.
//
// A file is a sequence of TracePackets, each as field 1 of the message Trace. So a
// file that was cut off is readable up to the cut, and two files may be concatenated.
package trace
