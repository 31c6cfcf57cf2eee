package slices

// Stats counts what a machine has done since it was created.
type Stats struct {
	Slices uint64 // slices sent, including repeats and those that [Machine.Unsent] took back
	Resent uint64 // of Slices: those that had been sent before
	// Of Slices: those sent while the path reported the fate of each packet, as
	// the sealed carrier does.
	Fated    uint64
	Repairs  uint64 // repair slices sent
	Restored uint64 // slices rebuilt from repair slices
	Refused  uint64 // slices and repair slices that were received and dropped, because there was no memory for them
	// Received datagrams that cannot be parsed, and repair slices that
	// contradict others of their chunk.
	Malformed uint64
}
