package slices

// Stats counts what a machine has done since it was created.
type Stats struct {
	Slices uint64 // slices sent, including resends and slices that [Machine.Unsent] took back
	Resent uint64 // slices sent again, included in Slices
	// Slices sent while the path reported the fate of each packet, as the sealed carrier does.
	// Included in Slices.
	Fated    uint64
	Repairs  uint64 // repair slices sent
	Restored uint64 // slices rebuilt from repair slices
	Refused  uint64 // received slices and repair slices dropped because there was no memory for them
	// Received datagrams that could not be parsed, and repair slices that contradict others
	// of their chunk.
	Malformed uint64
}
