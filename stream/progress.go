package stream

// Progress is a snapshot of a transfer, in bytes of a blob or elements of an array.
type Progress struct {
	// Sent is what has left the sender for the connection, where some of it may wait; at the receiver, what has arrived in order.
	Sent int64
	// Acked is what the receiving application has consumed, as far as is known here: what a progress bar shows.
	Acked int64
	// Total is -1 while it is not known.
	Total int64
	// Resumed is what was at the receiver before the transfer began, and did not travel again.
	Resumed int64
}
