// Package pieces carries what consists of pieces that each end may have already: files that are cut into chunks, levels of assets. The sender
// offers a manifest, bytes that tell the pieces; the receiver answers which of them it lacks, and only those follow, in one stream.
//
//	sender                         receiver
//	Offer   manifest           ->  Take or Hear, of Manifest
//	        lacks              <-  Fetch
//	Send    those pieces       ->
//
// What was interrupted is offered again, and less is lacking then. What a manifest says, and whether a piece is the one that it should be, is the
// game's to know: the stream has no digest of its own. A [Talk] belongs to something that both ends know by one name, such as the number of a
// request, which tells how it ended: [Beside].
//
// Each of the three is a blob of that name, a space, and "manifest", "lacks" or "pieces". Lacks is a bitmap: eight pieces in a byte, the lowest bit
// for the first, and nothing when none is lacking; then no pieces follow. Of each piece its size comes first, in four bytes, the lowest first.
package pieces
