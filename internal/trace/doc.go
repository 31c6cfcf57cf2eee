// Package trace writes what becomes of calls, packets and handlers as a file that ui.perfetto.dev opens.
//
// A [Writer] takes events from any goroutine into a buffer of a fixed size, and a goroutine of its own writes them: whoever adds an
// event waits for nothing but another one that does. An encoder, which is a pure type, makes Perfetto's TracePackets of them: a track
// group for the world, in it one for each connection, and in that the packets, acks and losses, counters, and two tracks for each
// actor: the calls on it that left and those that came. Slices that overlap go to lanes, tracks of the same name and parent, which
// the viewer draws as one.
//
// A file is a sequence of packets, each a field 1 of the message Trace: whole up to wherever it was cut, and of two files that are
// concatenated both are shown.
package trace
