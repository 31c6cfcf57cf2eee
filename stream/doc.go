// Package stream sends large arrays and files in pieces over the connections of package rpc.
// The game's own traffic is sent first, and transfers never fill more than half of a reliable
// buffer.
//
//	var SaveGame = stream.NewBlob("savegame") // in a package that both ends share; NewArray[Item] for a []Item
//
//	streams, err := stream.Install(world, stream.Config{}) // each end, before the first connection
//
//	SaveGame.Handle(streams, func(in *stream.IncomingBlob) { // the end that receives
//		go func() { // at its own pace, to which the sender adapts
//			if _, err := io.Copy(file, in); err != nil {
//				in.Cancel(err) // otherwise the sender would wait until somebody reads on
//			}
//		}()
//	})
//
//	err = SaveGame.Send(ctx, streams.Peer(conn), file, size) // the end that sends, on any goroutine but the world's
//
// Like a class, a topic is declared once: [NewArray] declares one for a []T, and [NewBlob] one
// for bytes. [Install] adds streams to a world, and [Streams.Peer] names the receiver.
//
// Send waits until the receiving application has consumed all of the content and its digest is
// verified. Start returns at once with a [Transfer], through which the sender can watch, wait
// for, weigh and cancel the transfer. The receiver's handler gets an [IncomingArray] or
// [IncomingBlob] to consume, reject or cancel.
//
// The same code works in both directions between server and client. Only the sender starts a
// transfer. A client that wants a download asks for it with one of the game's RPCs, or the
// server starts it in its OnConnect. A peer's [Inbox] keeps such a transfer for the code that
// asked for it. [Blob.Create] is for content that the program writes itself, rather than
// content that the transfer reads from a source.
//
// Comments in this package call all traffic other than transfers "play". "The article" is the
// one on streaming large data over Unreal's reliable RPCs, whose algorithm lanes use.
//
// # Progress
//
// [Transfer.Progress] and [Incoming.Progress] return how much the receiving application has
// consumed, and how fast. [Progress.Left] estimates the time that the rest takes. All of them
// may be called at any time and on any goroutine, so both ends can show the same progress bar:
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
// # Lanes
//
// Each transfer has a goroutine that reads, encodes and hashes the content. It stays at most
// 512 KiB ahead of what was sent. A world driven by Tick therefore sends at most 512 KiB of a
// transfer in a tick, 31 MB/s at 60 Hz. Under Run, content that is ready wakes the world.
//
// Each tick sends the content that is ready as reliable RPCs. An RPC has at most 32 KiB, or
// [MaxBytesPerRPC] for an array. A gate limits them: fewer than half of the R entries of the
// reliable buffer may be outstanding, and the send queue must be short. The gate is tested
// before each RPC of N entries, so at most R/2-1+N entries are ever outstanding. The buffer is
// refilled once a tick and, under Run, when acks free entries.
//
// The pieces of a transfer, its parts, are sent on lanes: channels that are sent after all
// others. If the path holds more than half a buffer, the connection opens more lanes, up to 32
// or the number that [Lanes] sets. It opens fewer if the game's actors don't leave it enough
// channels.
//
// The transfers of a connection share it according to their [Weight], which also decides which
// of them begins first. [Calls] and [Pump] apply the same algorithm to the game's own RPCs and
// channels.
//
// The receiver's credit is the second limit. 1 MiB may be sent with the header. After that,
// the sender may be 4 to 16 MiB ahead of the application, depending on how much memory is
// free. An application that does not read delays its own sender and no other.
//
// A transfer whose source or reader stalls in the middle continues until somebody cancels it:
// [Config].ReadTime ends only a transfer that nobody begins to read. Progress.Rate is 0 if
// nothing has moved for 5 seconds.
//
// # Slices
//
// [Slices] is the other backend. It is chosen for one transfer with [Via], or for all with
// [Config]. A part is then a chunk of package chunk and is cut into slices. Each slice is a
// packet of its own, which is sent again until it is acked.
//
// Slices use no reliable buffer. Few of them wait to be sent, so a transfer stops soon after
// it is canceled. Headers, answers, credit, digests and resuming work as they do with lanes,
// and transfers of both backends run side by side.
//
// Over QUIC, slices are sent after all play and within the congestion window, which they share
// with lanes. At most two ticks' worth of slices, or 5 ms' worth if that is more, wait to be
// sent. A slice is sent again in three cases:
//
//   - Three later slices of its chunk have arrived.
//   - One later slice has arrived, and 9/8 of the round trip have passed since the slice was
//     sent (RFC 9002, section 6.1).
//   - A probe timeout has expired.
//
// After two timeouts in a row, only probes are sent.
//
// If rpc.Config.Sealed is set at both ends, both backends use sealed packets. These are paced
// by a controller that does not take random loss for congestion. If sealed packets don't get
// through, QUIC is used instead, and nothing that was acked is sent again. [Transfer.Sealed]
// reports which of the two is in use.
//
// With sealed packets, the last parts are followed by repair slices, or by repair bunches on
// lanes. Their number is in proportion to the loss, so that the last losses cost no round
// trip. They are not sent between the bursts of a transfer that has a Rate or whose source
// pauses.
//
// WIRE.md specifies the bytes of both backends.
//
// # Completion and resuming
//
// A transfer is complete, for both ends, when the receiving application has consumed all of
// the content and the content's [Digest] is the sender's. The last piece is held back until
// the digest is verified.
//
// The digest algorithm is BLAKE3 if that is the fastest at both ends, and SHA-256 otherwise.
// [Hash] sets another one. [NoDigest] is for an application that verifies the pieces as they
// arrive. A receiver that wants to leave once it has the content should close its connection
// in [Incoming.OnEnd]; before that, the sender has not been told of the end.
//
// A transfer with a [Key] can be resumed if the receiver has a [Store], such as that of
// package disk. After an interruption it continues where it stopped, even in a new connection,
// and content that is already stored is not sent again. Neither application sees a difference.
//
// The sender still reads and hashes its source from the beginning, because the digest covers
// all of it. Only if the receiver has all of the content does the sender stop. The receiver
// first gives its application what is stored. A transfer with a key sends at most 4 KiB before
// its header is answered. An array resumes only if its elements always encode to the same
// bytes, which maps do not.
//
// When a connection ends, its transfers fail with ErrClosed. If the world is no longer driven,
// they do so within a second. If a function of the game panics and rpc.Config.OnPanic handles
// the panic, the function's transfer fails with ErrPanicked at both ends. The connection
// continues.
//
// # Snapshots and edits
//
// A world that is sent as a snapshot is kept up to date by calls. Transfers are not ordered
// with calls, nor with one another. An edit may therefore arrive before the snapshot that
// already contains it, or after a newer snapshot. A transfer that the sender has canceled in
// favor of a newer one may already be complete at the receiver.
//
// To handle this, number the versions. The snapshot's [Name] says what it is a snapshot of and
// at which version, and each edit carries the version that it produces. The receiver keeps
// edits until [Incoming.OnEnd]. It then applies those above the snapshot's version and drops
// the others. It also drops a snapshot that is older than what it has.
//
// The items of an array must not change until its transfer has ended. If they keep changing,
// give Start a copy. The example SnapshotsAndEdits, in stream/snapshot_test.go, does all this.
//
// Versions belong to one connection. When it ends, the receiver must forget them but may keep
// the content. It misses the edits that are made while it is away. A server that was restarted
// from an older save continues with that save's versions, so its snapshots and edits would
// look old. A receiver that returns can ask, by the content's digest, which parts are still
// current. The answer gives their versions.
//
// # Limits
//
// Everything that a peer can make this end hold is limited by [Config] or by a constant: 4
// transfers at once of 64 MiB each, 16 MiB of each unread, 256 MiB for the world; topics of 64
// bytes, names of 255, keys of 128; 32 lanes.
//
// Only Send, Wait, Read, Batches, Collect, Inbox.Take and an OutgoingBlob's Write block. On
// the world's goroutine they return ErrBlocking instead. The exception is an Inbox that
// belongs to no peer, which cannot know on which goroutine it is called.
package stream
