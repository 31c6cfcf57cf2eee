// Package stream sends large arrays and files over rpc in pieces. It never
// fills more than half of the reliable buffer, and play is sent first.
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
// A topic is declared once, like a class: with [NewArray] for a []T, with [NewBlob] for bytes.
// [Install] adds streams to a world, and [Streams.Peer] names the receiver. Send waits until
// the receiving application has consumed everything and the digest is right. Start returns a
// [Transfer], with which the sender can watch, wait for, weigh and cancel it. The receiver's
// handler gets an [IncomingArray] or [IncomingBlob], which it consumes, rejects or cancels.
// The same code works from server to client and from client to server. Only the sender starts
// a transfer: a client that wants a download asks for it with an RPC of the game, or the
// server starts it in its OnConnect. A peer's [Inbox] keeps such a transfer for the code that
// asked for it. [Blob.Create] is for content that is written instead of read from a source.
//
// # Progress
//
// [Transfer.Progress] and [Incoming.Progress] return, at any time and on any goroutine,
// how much the receiving application has consumed and how fast. [Progress.Left]
// estimates how long the rest takes. So both ends can show the same progress bar:
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
// One goroutine per transfer reads, encodes and hashes the content, at most 512 KiB ahead. So
// a world that is driven by Tick sends no more than that in a tick, 31 MB/s at 60 Hz; under
// Run, content that is ready wakes the world. Each tick sends what is ready as reliable RPCs
// of at most 32 KiB, or of [MaxBytesPerRPC] for an array, while fewer than half of the R
// entries of the reliable buffer are outstanding and the queue is short. This gate is tested
// before each RPC of N entries, so at most R/2-1+N entries are ever outstanding. Under Tick
// the buffer is refilled once a tick, under Run also when acks free entries.
//
// Parts are sent on lanes: channels that are sent after all others. A connection opens more
// lanes if its path holds more than half a buffer: up to 32, or as [Lanes] says, if the game's
// actors leave it enough channels. The transfers of a connection share it, and begin, by
// [Weight]. [Calls] and [Pump] apply the same algorithm to the game's own RPCs and channels.
//
// The receiver's credit is the second limit. 1 MiB may be sent with the header; after that
// the sender may be 4 to 16 MiB ahead of the application, depending on how much memory is
// free. An application that does not read makes its own sender wait, and no other.
//
// A transfer whose source or reader stalls in the middle continues until
// somebody cancels it: [Config].ReadTime ends only a transfer that nobody
// begins to read. Progress.Rate is 0 if nothing has moved for 5 seconds.
//
// # Slices
//
// [Slices] is the other backend, for one transfer with [Via] or for all with [Config]. A part is
// then a chunk of package chunk, cut into slices, and each slice is a packet of its own that is
// sent again until it is acked. Slices use no reliable buffer, and few of them wait to be sent, so
// a transfer stops soon after it is canceled. Everything else is the same: headers, answers,
// credit, digests and resuming work as with lanes, and transfers of both backends run side by side.
//
// Over QUIC, slices are sent after all play and within the congestion window, which they share
// with lanes. No more wait to be sent than the path takes in two ticks, or in 5 ms if that is
// longer. A slice is sent again when three later ones of its chunk have arrived; once any
// later one has arrived and 9/8 of the round trip have passed since it was sent (RFC 9002,
// section 6.1); or after a probe timeout. After two timeouts in a row only probes are sent.
//
// With rpc.Config.Sealed at both ends, both backends use sealed packets, paced by a
// controller that does not take random loss for congestion. After the last parts, repair
// slices, or repair bunches on lanes, are sent in proportion to the loss, so that the
// last losses cost no round trip. They are not sent between the bursts of a transfer
// whose source waits, or that has a Rate. If sealed packets do not get through, QUIC is
// used instead; what was acked stays acked. [Transfer.Sealed] reports which is in use.
//
// WIRE.md specifies the bytes of both backends.
//
// # Completion and resuming
//
// A transfer is complete, for both ends, when the receiving application has consumed
// everything and the content's [Digest] is the sender's. The last piece is held back until
// the digest is verified. The digest is BLAKE3 if that is the fastest at both ends, and
// SHA-256 otherwise, or as [Hash] says: [NoDigest] is for an application that verifies what
// arrives piece by piece. A receiver that wants to leave once it has the content should close
// its connection in [Incoming.OnEnd]; before that, the sender has not been told of the end.
//
// With a [Key], and with a [Store] at the receiver such as that of package disk, an
// interrupted transfer resumes where it stopped, even in a new connection, and content that
// is stored already is not sent again. Neither application sees a difference. The sender
// still reads and hashes its source from the beginning, because the digest covers
// everything, unless the receiver has all of it. The receiver first gives its application
// what is stored. A transfer with a key sends at most 4 KiB before its header is answered.
// An array resumes only if its elements always encode to the same bytes, which maps do not.
//
// When a connection ends, its transfers fail with ErrClosed, at most a second later if the
// world is no longer driven. If a function of the game panics and rpc.Config.OnPanic handles
// the panic, its transfer fails with ErrPanicked at both ends, and the connection continues.
//
// # Snapshots and edits
//
// A world that is sent as a snapshot is kept up to date by calls. Transfers are not
// ordered with calls, nor with one another. So an edit may arrive before the snapshot
// that already contains it, or after a newer snapshot. And a transfer that the sender
// has canceled in favor of a newer one may already be complete at the receiver.
//
// So number the versions: the snapshot's [Name] says which version of what it is, and each edit
// carries the version that it makes. The receiver keeps edits until [Incoming.OnEnd], applies those
// above the snapshot's version and drops the others. It also drops a snapshot that is older than
// what it has. The items of an array are lent until its transfer has ended: if they keep changing,
// give Start a copy. The example SnapshotsAndEdits, in stream/snapshot_test.go, does all this.
//
// Versions belong to one connection. When it ends, the receiver must forget them
// but may keep the content. It misses the edits that are made while it is away,
// and a server that was restarted from an older save counts on from there, so that
// its snapshots and edits would look old. A receiver that returns can ask by the
// content's digest which parts are still current; the answer gives their versions.
//
// # Limits
//
// Everything that a peer can make this end hold is limited by [Config] or by a
// constant: 4 transfers at once of 64 MiB each, 16 MiB of each unread, 256 MiB
// for the world; topics of 64 bytes, names of 255, keys of 128; 32 lanes.
//
// Only Send, Wait, Read, Batches, Collect, Inbox.Take and an OutgoingBlob's
// Write block. On the world's goroutine they return ErrBlocking instead of
// waiting, except an Inbox that belongs to no peer, which cannot know.
package stream
