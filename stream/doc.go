// Package stream sends large arrays and files over rpc in pieces. It never fills more than half of the reliable buffer, and play goes
// first.
//
//	var SaveGame = stream.NewBlob("savegame") // in a package that both ends share; NewArray[Item] for a []Item
//
//	streams, err := stream.Install(world, stream.Config{}) // each end, before the first connection
//
//	SaveGame.Handle(streams, func(in *stream.IncomingBlob) { // the end that receives
//		go io.Copy(file, in) // at its own pace; the sender feels it
//	})
//
//	err = SaveGame.Send(ctx, streams.Peer(conn), file, size) // the end that sends, from any goroutine
//
// A topic is declared once, like a class: [NewArray] for a []T, [NewBlob] for bytes. [Install] makes a world stream;
// [Streams.Peer] names who is streamed to. Send waits until the far application has all of it and its digest is right; Start
// returns a [Transfer], which the sender can watch, wait for, weigh and cancel. The receiver's handler gets an [IncomingArray] or
// [IncomingBlob], which it consumes, rejects or cancels. The same lines work from server to client and from client to server. Only
// senders start: a client that wants a download asks for it by an RPC of the game, or the server starts it in its OnConnect.
// Such a transfer waits in an [Inbox] for who asked. [Blob.Create] is for who writes content and has no reader of it.
//
// # How it travels
//
// Content is read, encoded and hashed by one goroutine per transfer, at most 512 KiB ahead: a world that is driven by Tick
// moves no more than that in one, 31 MB/s at 60 Hz; under Run it is woken for what is ready. Each tick takes what is
// ready and sends it as reliable RPCs of at most 32 KiB, or what [MaxBytesPerRPC] says of an array, while fewer than half of the reliable buffer's entries are
// outstanding and little waits in the queue: the gate stands before each RPC, so at most R/2-1+N entries are ever
// outstanding. Under Tick the window refills once a tick; under Run also when acks free entries. Parts travel on lanes,
// channels that leave after all others; a connection opens more of them where its path holds more than half a buffer, up to
// 32, or what [Lanes] says, as far as the game's actors leave it channels. Transfers of a connection share by [Weight]. The algorithm is also to be had for your own RPCs and
// channels: see [Calls] and [Pump].
//
// The receiver's credit is the second brake: 1 MiB may leave with the header, then 4 to 16 MiB, by how much memory is free, beyond
// what the application has consumed. Whoever does not read makes the sender wait, and nobody else.
//
// # Slices
//
// [Slices] is the other backend, for a transfer by [Via] or for all in [Config]: a part is a chunk of package chunk, cut into
// slices that are packets of their own and are sent again until they are acked. No reliable buffer is filled, and what
// waits for its turn is little, so a transfer that is canceled stops soon. Everything else is the same: header, answer,
// credit, digest and resume travel and count as for lanes, and transfers by both backends go on side by side.
//
// Over QUIC slices leave behind all play and within the congestion window, which they share with lanes, and keep at most
// 20 ms of queue. A slice is sent again when three later ones of its chunk have arrived, or any later one and 9/8 of the
// round trip, or nothing for long: after two such timeouts in a row only probes leave.
//
// With rpc.Config.Sealed at both ends all travels in sealed packets, whichever the backend, paced by a controller that takes
// random loss for what it is. When the last parts have left as slices, repair slices follow in proportion to the loss, so that
// the last losses cost no round trip. When sealed packets do not get through, QUIC carries; what is acked stays so, and
// [Transfer.Sealed] tells.
//
// WIRE.md has the bytes of both.
//
// # When it is complete
//
// A transfer is complete, for both ends, when the receiving application has consumed all of it and its [Digest] is the
// sender's. The last piece is held back until that is known. The digest is BLAKE3 where both ends are fastest with that,
// SHA-256 elsewhere, or what [Hash] says: [NoDigest], where the application verifies what arrives piece by piece.
//
// With a [Key] and a [Store] at the receiver, as package disk has one, a transfer that was interrupted goes on where it
// stopped, in a new connection, too, and content that is there already is not sent again. The sender reads and hashes its source from
// the beginning all the same, because the digest covers the whole; a receiver reads what it stored and hands it to
// the application first, so that neither application sees a difference. A transfer with a key sends at most 4 KiB before
// its header is answered. An array resumes only if its elements encode to the same bytes again: maps do not.
//
// A connection's end fails its transfers with ErrClosed, a second later at most when nobody drives the world any more.
// A function of the game that panics fails its transfer with ErrPanicked, at both ends, if rpc.Config.OnPanic takes the
// panic; the connection goes on.
//
// # Limits
//
// Everything that a peer can make this end hold has a limit in [Config], or a constant: 4 transfers at once of 64 MiB each,
// 16 MiB of each unread, 256 MiB for the world; topics of 64 bytes, names of 255, keys of 128; 32 lanes.
//
// No call here blocks, but for Send, Wait, Read, Batches, Collect and an OutgoingBlob's Write; on the world's goroutine these fail with
// ErrBlocking where they would have to wait. Inbox.Take waits as well, and must not be called there.
package stream
