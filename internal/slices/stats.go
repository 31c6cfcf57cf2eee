package slices

// Stats counts what a machine has done since it was created.
type Stats struct {
	Slices uint64 // slices sent, counting resends and those that [Machine.Unsent] took back
	Resent uint64 // how many of them were sent again
	Fated  uint64 // how many of them were sent on paths that report fates (whether each arrived)

	Repairs  uint64 // repair slices sent
	Restored uint64 // slices restored from repair slices

	Refused   uint64 // received slices and repair slices dropped because there was no memory
	Malformed uint64 // received datagrams that can't be parsed, and repair slices that contradict others
}
