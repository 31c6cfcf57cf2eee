// Package chunk sends large blocks of data reliably over packets that may be lost: the chunk protocol of Glenn Fiedler's
// article "Sending Large Blocks of Data", bit for bit.
//
// A chunk is a block of up to 256 slices of 1,024 bytes. A [Sender] sends its slices, each in a packet of its own, again and
// again until all are acked. A [Receiver] puts them together and answers with acks that carry a bit for every slice of the
// chunk, so that a lost ack costs nothing and one that comes late does no harm: a bit that was set stays set. Chunks arrive
// whole, once, and in the order in which they were given to Send.
//
// Both ends are machines without clock, goroutine or lock. Their owner says what time it is, moves the packets, and comes
// back at NextTimeout:
//
//	s, err := chunk.NewSender(chunk.Config{})    r, err := chunk.NewReceiver(chunk.Config{})
//	s.Send(data)
//	p, ok := s.AppendSlice(now, buf)     ---->   r.ReceiveSlice(now, p)
//	s.ReceiveAck(now, p)                 <----   p, ok := r.AppendAck(now, buf)
//	s.Done()                                     id, data, ok := r.Chunk()
//
// A driver with packets of its own, for instance sealed ones, uses NextSlice, Insert, NextAck and Acknowledge, which leave the
// bytes on the wire to it. A driver that learns which packets were lost calls Lost; otherwise a slice is sent again when its ack is
// late. When the packets take another path, call Restart at both ends: slices that have arrived stay.
//
// A now that lies before an earlier one counts as the earlier one. Where packets of both directions come out of one socket,
// Config.Parse tells slices from acks, and what it returns goes to Insert or Acknowledge. A machine is not safe for concurrent use.
//
// # Life
//
// The packets do not say which Sender or Receiver made them, so the two ends of a direction begin and end together. Whoever makes
// one of them anew, after a crash or a cancel, makes the other one anew as well, and gives both another ProtocolID, on which the
// handshake of the two programs agrees; then late packets of the former pair are malformed. Without that a receiver acks the
// first chunks of a new sender as if they were those that it has handed out, so that Done is true and nothing was taken, or it
// joins slices of the old and the new sender; and a new receiver ignores the slices of an old sender forever. Restart is not for
// this.
//
// A Sender never gives up: a driver with a timeout watches SenderStats.AckedBytes. A chunk that was given to Send cannot be taken
// back, so a driver that may cancel gives few at once (Config.SendQueue).
//
// # Pace
//
// Config.Rate is the article's budget in bytes a second. Bytes that are left over stay in it, up to those of 250 ms, which leave at once
// when the driver asks so late; time with nothing to send adds none.
// A slice is sent again no sooner than RTT * 1.25 after the last time, 100 ms while the RTT is not known, and on paths
// shorter than 60 ms a little later, because a receiver may wait Config.AckDelay with its ack. A growing queue is no loss: so a
// slice that no later one has overtaken waits as long as acks of others keep coming, and when it has been sent again without an
// ack the delay doubles (RFC 6298, section 5.5), up to 16 times itself or a second, until the ack of a slice that was sent once
// tells the round trip. When no ack at all came for eight such delays, single slices leave, one per doubled delay, until an ack
// comes. None of this reacts to congestion: on a shared path the driver sets the rate, or takes slices as its own controller
// allows.
//
// Config.Burst, the initial burst, is for load screens and connections that only wait for the chunk, as the article says:
// 256 slices leave back to back, whatever the rate. While a game is played they stand in the same queues as its packets: at
// 5 Mbit/s those wait 0.4 s behind a whole chunk, and a short queue drops packets of the game as well as slices.
//
// # Socket buffers
//
// The receiver's socket buffers packets between two reads, and silently drops those that do not fit. Linux counts a packet with
// a slice of 1,024 bytes as 2,304, and doubles the size given to SetReadBuffer: so ask for 1,152 bytes a slice, 300 KiB for a
// whole chunk that comes in one burst, times Config.Pipeline where so many chunks may come at once. By default a socket holds 92
// slices (net.core.rmem_default of 212,992), and SetReadBuffer is capped at net.core.rmem_max: where that is the same, 184.
// Without Burst the buffer must hold the slices that Config.Rate lets through between two reads: at 125,000 bytes a second and 60
// reads, 3 slices. Lost slices come again after ResendDelay, so a buffer that is too small costs time and causes no error.
//
// # Beyond the article
//
// The zero Config is what the article describes. Config.Pipeline chunks may be in flight, which saves the round trip between
// two chunks: one more than leave in a round trip fill a path that loses nothing, 2 at 5 Mbit/s and 50 ms, 25 at 1 Gbit/s. Where 1 %
// is lost it takes up to five times as many, because later chunks wait for the last slice of the oldest one. Config.SliceSize may
// be larger; a queue stands in front of the sender. The faults of the article's example code are not copied: there, slices have no
// resend delay, a complete chunk is not acked until one of its slices comes again, and a packet may say that it holds slice 3 of 3.
//
// # Limits
//
// A chunk has 1 byte to MaxSlices * SliceSize. A receiver holds at most Config.ReceiveQueue chunks, a sender Config.Pipeline in
// flight and Config.SendQueue in front of them. Anybody who can write packets of the protocol can forge slices and acks: over an
// open network the packets belong inside an authenticated connection.
//
// WIRE.md specifies the bytes.
package chunk
