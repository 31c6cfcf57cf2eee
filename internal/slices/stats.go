package slices

// Stats counts what a machine did since it was made.
type Stats struct {
	Slices    uint64 // slices sent, with repeats and with those that [Machine.Unsent] took back
	Resent    uint64 // of Slices: those that had been sent before
	Fated     uint64 // of Slices: those sent while the path told what became of each packet, as the sealed carrier does
	Repairs   uint64 // repair slices sent
	Restored  uint64 // slices rebuilt from repair slices
	Refused   uint64 // slices and repair slices received and dropped because no memory was left for them
	Malformed uint64 // datagrams received that could not be read, and repair slices that contradict others of their chunk
}
