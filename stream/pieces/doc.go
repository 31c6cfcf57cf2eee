// Package pieces sends content of which the receiver may already have some, such as files cut into
// chunks or the assets of a level.
//
// The sender offers a manifest, which describes the pieces in the game's own format. The receiver
// answers which of them it lacks, and the sender sends only those, all in one transfer.
//
//	sender                         receiver
//	Offer   manifest           ->  ReadBlob or TakeBlob, of Manifest
//	        lacks              <-  Fetch
//	Send    those pieces       ->
//
// This is the sender. The request tells the receiver to begin, and its answer says that the
// receiver has everything.
//
//	kept, err := pieces.WithRequest(ctx, func(ctx context.Context) (Kept, error) {
//		return Put.Ask(ctx, desk, 7)
//	}, func(ctx context.Context) error {
//		t := &pieces.Talk{Blob: talks, Peer: streams.Peer(conn), Name: "7", MaxPiece: 4096}
//		lacks, err := t.Offer(ctx, manifest, len(assets))
//		if err != nil {
//			return err
//		}
//		return t.Send(ctx, lacks, func(b []byte, i int) ([]byte, error) {
//			return append(b, assets[i]...), nil
//		})
//	})
//
// The example in stream/pieces/example_test.go shows the receiver as well.
//
// After an interruption, the sender offers the manifest again under a new name, and the receiver
// lacks fewer pieces than before. The transfer has no digest, because only the game can read a
// manifest and check that a piece is the right one. For files and folders, packages cdc and
// manifest do both.
//
// Both ends know a [Talk] by one name, such as the number of a request, whose answer then says how
// the talk ended (see [WithRequest]). A talk without a request can only be ended by its context if
// the other side stops taking part.
//
// Since all pieces of a Send are one transfer, stream.Config.MaxBytes limits their size at the
// receiver, to 64 MiB by default. If it is negative, only the manifests that each end accepts limit
// it. Beyond the limit, both ends fail with stream.ErrTooLarge.
//
// # Format
//
// Manifest, lacks and pieces are blobs. Each is named by the talk's name, a space, and "manifest",
// "lacks" or "pieces".
//
// Lacks is a bitmap with eight pieces to a byte, the lowest bit first. It is empty if the receiver
// lacks none, and then there is no blob of pieces.
//
// Each piece follows its size in four bytes, little endian.
package pieces
