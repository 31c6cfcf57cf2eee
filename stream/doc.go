// Package stream sends large arrays and files over rpc in pieces. It never fills more than half of the reliable buffer, and play goes
// first.
//
//	var SaveGame = stream.NewBlob("savegame") // in a package that both ends share; NewArray[Item] for a []Item
//
//	streams, err := stream.Install(world, stream.Config{}) // each end, before the first connection
//
//	SaveGame.Handle(streams, func(in *stream.IncomingBlob) { // the end that receives
//		go func() { // at its own pace; the sender feels it
//			if _, err := io.Copy(file, in); err != nil {
//				in.Cancel(err) // else the sender would wait for somebody to read on
//			}
//		}()
//	})
//
//	err = SaveGame.Send(ctx, streams.Peer(conn), file, size) // the end that sends, from any goroutine
//
// A topic is declared once, like a class: [NewArray] for a []T, [NewBlob] for bytes. [Install] makes a world stream;
// [Streams.Peer] names the receiver. Send waits until the far application has consumed all and the digest is right; Start
// returns a [Transfer], which the sender can watch, wait for, weigh and cancel. The receiver's handler gets an [IncomingArray] or
// [IncomingBlob], which it consumes, rejects or cancels. The same lines work from server to client and from client to server. Only
// the sender starts a transfer: a client that wants a download asks for it by an RPC of the game, or the server starts it in its
// OnConnect. A peer's [Inbox] keeps such a transfer for the code that asked. [Blob.Create] is for content that is written, not read.
//
// # Progress
//
// [Transfer.Progress] and [Incoming.Progress] say, at any time and on any goroutine, how much the receiving application has consumed and how
// fast, and [Progress.Left] how long the rest takes. So both ends can show the same bar:
//
//	for bar := time.Tick(time.Second / 4); ; {
//		select {
//		case <-transfer.Done():
//			return transfer.Err()
//		case <-bar:
//			fmt.Println(transfer.Progress()) // 2,048 sent, 1,024 of 4,096 acked (25.0 %), 256 a second, 12s left
//		}
//	}
//
// # How it travels
//
// One goroutine per transfer reads, encodes and hashes the content, at most 512 KiB ahead: a world that is driven by Tick
// moves no more than that in a tick, 31 MB/s at 60 Hz; under Run, content that is ready wakes it. Each tick takes what is
// ready and sends it as reliable RPCs of at most 32 KiB, or what [MaxBytesPerRPC] says of an array, while fewer than half of
// the R entries of the reliable buffer are outstanding and little waits in the queue. This gate is tested before each RPC of
// N entries, so at most R/2-1+N are ever outstanding. Under Tick the buffer refills once a tick; under Run also when acks
// free entries. Parts travel on lanes, channels that leave after all others. A connection opens more of them when its path
// holds more than half a buffer, up to 32, or what [Lanes] says, as far as the game's actors leave it channels. Transfers of
// a connection share it, and begin, by [Weight]. [Calls] and [Pump] apply the algorithm to your own RPCs and channels.
//
// The receiver's credit is the second brake: 1 MiB may leave with the header; after that the sender may be 4 to 16 MiB ahead of the
// application, by how much memory is free. An application that does not read makes its own sender wait, and no other.
//
// A transfer whose source or reader stands still in the middle goes on until somebody cancels it: [Config].ReadTime ends only one that nobody begins
// to read. Progress.Rate is 0 when nothing has moved for 5 seconds.
//
// # Slices
//
// [Slices] is the other backend, for one transfer by [Via] or for all in [Config]: a part is a chunk of package chunk, cut into
// slices, each a packet of its own that is sent again until it is acked. Slices fill no reliable buffer, and few wait to be
// sent, so a transfer that is canceled stops soon. Everything else is the same: header, answer, credit, digest and resume
// work as for lanes, and transfers by both backends go on side by side.
//
// Over QUIC slices leave behind all play and within the congestion window, which they share with lanes, and keep at most
// 20 ms of queue. A slice is sent again when three later ones of its chunk have arrived; when any later one has, 9/8 of the
// round trip after it left (RFC 9002, section 6.1); or after a probe timeout. After two timeouts in a row only probes leave.
//
// With rpc.Config.Sealed at both ends both backends travel in sealed packets, paced by a controller that does not take random
// loss for congestion. When the last parts have left, repair slices, or repair bunches on lanes, follow in proportion to the
// loss, so that the last losses cost no round trip. None follow between the bursts of a transfer whose source waits, or that
// has a Rate. When sealed packets do not get through, QUIC carries; what was acked stays acked, and [Transfer.Sealed] says
// which carries.
//
// WIRE.md has the bytes of both.
//
// # When it is complete
//
// A transfer is complete, for both ends, when the receiving application has consumed all of it and its [Digest] is the
// sender's. The last piece is held back until that is known. The digest is BLAKE3 where both ends are fastest with that,
// SHA-256 elsewhere, or what [Hash] says: [NoDigest], where the application verifies what arrives piece by piece. A receiver
// that leaves with what it has got closes its connection in [Incoming.OnEnd]; before, the sender has no word of the end.
//
// With a [Key], and a [Store] at the receiver such as package disk's, a transfer that was interrupted goes on where it
// stopped, also in a new connection, and content that is stored already is not sent again. The sender still reads and
// hashes its source from the beginning, because the digest covers the whole, unless the receiver has all of it; the receiver
// first hands the application what it has stored. So neither application sees a difference. A transfer with a key sends at
// most 4 KiB before its header is answered. An array resumes only if its elements encode to the same bytes again: maps do not.
//
// The end of a connection fails its transfers with ErrClosed, at most a second later if nobody drives the world any more.
// When a function of the game panics and rpc.Config.OnPanic takes the panic, its transfer fails with ErrPanicked at both
// ends, and the connection goes on.
//
// # Snapshots and edits
//
// A world that is sent in snapshots is kept up to date by calls, and transfers are not ordered with calls, nor with one another: an edit may
// arrive before the snapshot that has it already, or after a newer one, and a transfer that its sender has canceled for a newer one may have
// been complete at the receiver. So count: the snapshot's [Name] says which version of what it is, each edit carries the version that it
// makes, and the receiver keeps edits until [Incoming.OnEnd], applies those above the snapshot's version, drops the others, and drops a
// snapshot that is older than what it has. The items of an array are lent until its transfer is done: give Start a copy of what goes on
// changing. The example SnapshotsAndEdits, in stream/snapshot_test.go, does this.
//
// Versions belong to one connection. When it ends the receiver forgets them, and may keep the content: edits pass by who is away, and a
// server that has come back with an older save counts on from there, so its snapshots and edits would look old. With the content's digest a
// receiver that returns can ask which parts it still has, and the answer says their versions.
//
// # Limits
//
// Everything that a peer can make this end hold has a limit in [Config], or a constant: 4 transfers at once of 64 MiB each,
// 16 MiB of each unread, 256 MiB for the world; topics of 64 bytes, names of 255, keys of 128; 32 lanes.
//
// Only Send, Wait, Read, Batches, Collect, Inbox.Take and an OutgoingBlob's Write block. On the world's goroutine they return
// ErrBlocking instead of waiting; an Inbox that is no peer's cannot tell.
package stream
