// Package stream sends large arrays and files in pieces over the connections of package rpc.
// Transfers stay out of the game's way: the game's own traffic is sent first, and transfers never
// fill more than half of a reliable buffer.
//
//	var SaveGame = stream.NewBlob("savegame") // in a package that both ends share; NewArray[Item] for a []Item
//
//	streams, err := stream.Install(world, stream.Config{}) // each end, before the first connection
//
//	SaveGame.Handle(streams, func(in *stream.IncomingBlob) { // the end that receives
//		go func() { // at its own pace, to which the sender adapts
//			if _, err := io.Copy(file, in); err != nil {
//				in.Cancel(err) // or else the sender would wait for somebody to read on
//			}
//		}()
//	})
//
//	err = SaveGame.Send(ctx, streams.Peer(conn), file, size) // the end that sends, on any goroutine but the world's
//
// Like a class, a topic is declared once, with [NewArray] for a []T or [NewBlob] for bytes.
// [Install] adds streams to a world, and [Streams.Peer] names the receiver.
//
// Send waits until the receiving application has consumed all of the content and its digest has
// been verified. Start doesn't wait. It returns a [Transfer], which the sender can use to follow
// the transfer, wait for it, change its weight or cancel it. The receiver's handler gets an
// [IncomingArray] or [IncomingBlob] to consume, reject or cancel.
//
// The same code works in both directions between server and client, but only the sender starts a
// transfer. A client that wants a download requests it with one of the game's RPCs, unless the
// server starts it in OnConnect. A peer's [Inbox] keeps a requested transfer for the code that
// requested it. [Blob.Create] is for a program that writes the content itself instead of having
// the transfer read it from a source.
//
// In the comments of this package, "play" means all traffic other than transfers, "bulk" means
// transfers, and "the article" is an article on streaming large data over Unreal's reliable RPCs,
// whose algorithm lanes use.
//
// # Progress
//
// [Transfer.Progress] and [Incoming.Progress] return how much the receiving application has
// consumed, and how fast. [Progress.Left] estimates how long the rest will take. All of these
// methods may be called at any time and on any goroutine, so both ends can show the same progress
// bar:
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
// Each transfer has a goroutine that reads, encodes and hashes the content, up to 512 KiB ahead
// of what has been sent. A world driven by Tick therefore sends at most 512 KiB of a transfer per
// tick, or 31 MB/s at 60 Hz. Under Run, the world wakes as soon as content is ready.
//
// Each tick sends the content that is ready as reliable RPCs of at most 32 KiB, or
// [MaxBytesPerRPC] for an array, or less if the reliable buffer or MaxBunch is small. A gate
// decides how many RPCs are sent. It is open while fewer than half of the reliable buffer's R
// entries are outstanding and the send queue is short. Since it is tested before each RPC, at most
// R/2-1+N entries are ever outstanding if an RPC has N entries. The buffer is refilled once per
// tick and, under Run, when acks free entries.
//
// A piece of a transfer is called a part. Parts are sent on lanes, which are channels with a
// lower priority than all others. If the path can hold more than half a buffer, the connection
// opens more lanes, up to 32 or the number that [Lanes] sets, as long as the game's actors leave
// it enough channels.
//
// The transfers of a connection share its bandwidth according to their [Weight], which also
// decides which transfer begins first. [Calls] and [Pump] apply the same algorithm to the game's
// own RPCs and channels.
//
// The receiver limits the sender as well, by granting credit. At first, the sender may send 1 MiB
// along with the header. After that, the sender may be 4 to 16 MiB ahead of the application,
// depending on how much memory is free. An application that doesn't read holds up its own sender
// but no other.
//
// A transfer whose source or reader stalls midway stays open until somebody cancels it, because
// [Config].ReadTime only ends a transfer that nobody begins to read. After 5 seconds without
// progress, Progress.Rate is 0.
//
// # Slices
//
// [Slices] is the other backend. Choose it for one transfer with [Via], or for all with
// [Config]. A part then becomes a chunk of package chunk, which is cut into slices. Each slice
// has a packet to itself and is resent until it is acked.
//
// Slices use no reliable buffer. Since few of them are queued, a transfer stops soon after it is
// canceled. Headers, answers, credit, digests and resuming work as they do with lanes, and
// transfers of both backends can run side by side.
//
// Over QUIC, slices are sent after all play and within the congestion window, which they share
// with lanes. The queue holds as many slices as are sent in two ticks or 5 ms, whichever is
// longer. A slice is retransmitted when:
//
//   - three later slices of its chunk have arrived,
//   - one later slice has arrived, and 9/8 of the round-trip time has passed since the slice was
//     sent (RFC 9002, section 6.1), or
//   - a probe timeout has expired.
//
// After two timeouts in a row, only probes are sent.
//
// If rpc.Config.Sealed is set at both ends, both backends use sealed packets, which are paced by
// a controller that doesn't mistake random loss for congestion. If sealed packets don't get
// through, QUIC takes over, and nothing that was acked is resent. [Transfer.Sealed] reports
// whether sealed packets are in use.
//
// With sealed packets, the last parts are followed by repair slices (on lanes, by repair bunches)
// in proportion to the loss rate, so that losses at the end cost no additional round trip. No
// repairs are sent between the bursts of a transfer that has a Rate or whose source pauses.
//
// WIRE.md specifies the bytes of both backends.
//
// # Completion and resuming
//
// At both ends, a transfer is complete when the receiving application has consumed all of the
// content and its [Digest] is the one that the sender computed. The application gets the last
// piece only after the digest has been verified.
//
// The digest algorithm is BLAKE3 if that is the fastest one at both ends, and SHA-256 otherwise,
// unless [Hash] sets another. [NoDigest] is for an application that verifies the pieces itself as
// they arrive.
//
// A receiver that wants to leave once it has the content should close its connection in
// [Incoming.OnEnd]. Before that, the sender hasn't been told that the transfer is complete.
//
// A transfer with a [Key] can be resumed if the receiver has a [Store], such as that of package
// disk. When it is started again after an interruption, even over a new connection, it continues
// where it stopped, and content that is already stored is not resent. The receiver's application
// doesn't notice, because it gets the stored content first.
//
// Unless the receiver turns out to have all of the content, the sender still reads and hashes its
// source from the beginning, because the digest covers all of it. A transfer with a key sends at
// most 4 KiB before its header is answered. An array can be resumed only if its elements always
// encode to the same bytes, which maps, for example, don't.
//
// When a connection ends, its transfers fail with ErrClosed, after at most a second even if the
// world is no longer driven. If a function of the game panics and rpc.Config.OnPanic handles the
// panic, the transfer that called it fails with ErrPanicked at both ends, and the connection
// continues.
//
// # Snapshots and edits
//
// A game may send its world as a snapshot and then update it by calls. But transfers are not
// ordered with calls, nor with one another, so an edit may arrive before the snapshot that already
// contains it, or after a newer one. Moreover, a transfer that the sender cancels in favor of a
// newer one may already be complete at the receiver.
//
// To handle this, number the versions. The snapshot's [Name] says what it is a snapshot of and at
// which version, and each edit carries the version that it produces. The receiver keeps edits
// until [Incoming.OnEnd], when it applies those above the snapshot's version and discards the
// others. It also discards a snapshot that is older than the content it has.
//
// The items of an array must not change until its transfer has ended. If they keep changing,
// pass a copy to Start. The example SnapshotsAndEdits, in stream/snapshot_test.go, does all this.
//
// Versions belong to one connection. When the connection ends, the receiver must forget them,
// although it may keep the content, for two reasons: it misses the edits that are made while it's
// away, and a server that is restarted from an older save continues with that save's versions, so
// its snapshots and edits would look old. A receiver that returns can send the digests of its
// content to ask which parts are still current. The answer gives their versions.
//
// # Limits
//
// Everything that a peer can make this end hold is limited by [Config] or by a constant. By
// default, a peer may have 4 transfers of 64 MiB at once, of which 16 MiB each may be unread, and
// all peers together may use 256 MiB. Topics have up to 64 bytes, names 255 and keys 128. A
// connection has up to 32 lanes.
//
// Only Send, Wait, Read, WriteTo, Batches, Collect, Inbox.Take and an OutgoingBlob's Write block.
// On the world's goroutine they return ErrBlocking instead. The transfer continues then, so another
// goroutine may call them. Wait, Read and WriteTo work on the world's goroutine until they would
// have to wait. An Inbox that belongs to no peer blocks, since it can't tell which goroutine calls
// it.
package stream
