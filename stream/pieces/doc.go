// Package pieces sends content of which each end may have parts already: files that are cut into chunks, levels of assets. The sender offers a
// manifest, bytes that describe the pieces; the receiver answers which pieces it lacks, and only those follow, in one stream.
//
//	sender                         receiver
//	Offer   manifest           ->  ReadBlob or TakeBlob, of Manifest
//	        lacks              <-  Fetch
//	Send    those pieces       ->
//
//	// The sender. Ask tells the receiver to begin, and its answer that all is well.
//	kept, err := pieces.WithRequest(ctx, func(ctx context.Context) (Kept, error) {
//		return Put.Ask(ctx, desk, 7)
//	}, func(ctx context.Context) error {
//		t := &pieces.Talk{Blob: talks, Peer: streams.Peer(conn), Name: "7", MaxPiece: 4096}
//		lacks, err := t.Offer(ctx, manifest, len(assets))
//		if err != nil {
//			return err
//		}
//		return t.Send(ctx, lacks, func(b []byte, i int) ([]byte, error) { return append(b, assets[i]...), nil })
//	})
//
// The example, in stream/pieces/example_test.go, has the receiver too.
//
// A transfer that was interrupted is offered again under a new name, and less is lacking then. Only the game knows what a manifest says, and
// whether a piece is the right one: the stream has no digest of its own. Packages cdc and manifest know both for files and folders. A
// [Talk] belongs to something that both ends know by one name, such as the number of a request, whose answer says how it ended: [WithRequest].
// Without a request only the contexts end what the other side does not go on with.
//
// All pieces of a Send are one transfer, for which stream.Config.MaxBytes holds at the receiver: 64 MiB unless it says more, or is negative, where
// what each end takes is bounded by its manifests. Beyond it both ends fail with stream.ErrTooLarge.
//
// Each of the three is a blob of the talk's name, a space, and "manifest", "lacks" or "pieces". Lacks is a bitmap: eight pieces in a byte, the
// lowest bit for the first, and nothing when none is lacking; then no pieces follow. Of each piece its size comes first, in four bytes, the lowest
// first.
package pieces
