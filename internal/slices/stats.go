package slices

// Stats counts what a machine did since it was made.
type Stats struct {
	Slices, Resent     uint64 // sent; of them, again
	Fated              uint64 // of those sent, on a path that tells fates
	Repairs, Restored  uint64 // repair slices sent; slices made from those that came
	Refused, Malformed uint64 // what came and was dropped: beyond what the account allows; not to be read
}
