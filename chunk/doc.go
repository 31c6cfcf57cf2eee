// Package chunk sends large blocks of data reliably over packets that may be lost. It implements
// the chunk protocol of Glenn Fiedler's article "Sending Large Blocks of Data", bit for bit.
//
// A chunk is a block of up to 256 slices of 1,024 bytes. A [Sender] sends each slice
// in a packet of its own, again and again until all are acked. A [Receiver]
// assembles them and answers with acks that have a bit for every slice of the chunk.
// So a lost ack costs nothing and a late one does no harm: a bit that was set stays
// set. Chunks arrive complete, once, and in the order of the calls of Send.
//
// Both ends are machines without clock, goroutine or lock. Their owner passes them
// the time, sends and receives the packets, and calls them again at NextTimeout:
//
//	s, err := chunk.NewSender(chunk.Config{})    r, err := chunk.NewReceiver(chunk.Config{})
//	s.Send(data)
//	p, ok := s.AppendSlice(now, buf)     ---->   r.ReceiveSlice(now, p)
//	s.ReceiveAck(now, p)                 <----   p, ok := r.AppendAck(now, buf)
//	s.Done()                                     id, data, ok := r.Chunk()
//
// A driver with packets of its own, for instance sealed ones, uses NextSlice, Insert,
// NextAck and Acknowledge, and encodes the slices and acks itself. A driver that learns
// which packets were lost calls Lost; otherwise a slice is sent again if its ack is late. If
// packets change to another path, call Restart at both ends: slices that have arrived stay.
//
// A now before that of an earlier call counts as the earlier one. If packets of both
// directions arrive on one socket, Config.Parse distinguishes slices from acks, and its
// result is passed to Insert or Acknowledge. A machine is not safe for concurrent use.
//
// # Lifetime
//
// Packets do not identify the Sender or Receiver that made them, so the two ends of a direction
// begin and end together. If one of them is replaced, after a crash or a cancel, the other must be
// replaced as well, and both need another ProtocolID, on which the handshake of the two programs
// must agree. Then late packets of the former pair are malformed. Otherwise a receiver acks the
// first chunks of a new sender as if they were those that it has already returned, so that Done is
// true although nothing was received; or it joins slices of the old and the new sender. And a new
// receiver ignores the slices of an old sender forever. Restart is not for this.
//
// A Sender never gives up: a driver with a timeout should watch
// SenderStats.AckedBytes. A chunk that was passed to Send cannot be taken back,
// so a driver that may cancel should pass few at a time (Config.SendQueue).
//
// # Pacing
//
// Config.Rate is the article's budget in bytes a second. Unused bytes stay in it, up to those of
// 250 ms, which are sent at once if the driver calls so late. Time with nothing to send adds none.
//
// A slice is sent again no sooner than RTT * 1.25 after the last time, or 100 ms while the RTT is
// unknown. On paths shorter than 60 ms it is a little later, because a receiver may wait
// Config.AckDelay before it acks. A growing queue is not a loss. So a slice that no later one has
// overtaken waits as long as acks of others arrive. If it is sent again without an ack, the delay
// doubles (RFC 6298, section 5.5), up to 16 times or a second, until the ack of a slice that was
// sent once gives a round trip. If no ack at all has arrived for eight such delays, single slices
// are sent, one per doubled delay, until an ack arrives. None of this reacts to congestion: on a
// shared path the driver must set the rate, or take slices as its own controller allows.
//
// Config.Burst, the initial burst, is for load screens and connections that only wait for
// the chunk, as the article says: 256 slices are sent back to back, whatever the rate. While
// a game is played, the burst shares queues with the game's packets: at 5 Mbit/s these wait
// 0.4 s for a whole chunk, and a short queue drops packets of the game as well as slices.
//
// # Socket buffers
//
// The receiver's socket buffers packets between two reads, and silently drops those that do not
// fit. Linux counts a packet with a slice of 1,024 bytes as 2,304 bytes, and doubles the size
// given to SetReadBuffer. So set 1,152 bytes for each slice: 300 KiB for a whole chunk in one
// burst, times Config.Pipeline if that many chunks may arrive at once. By default a socket holds
// 92 slices (net.core.rmem_default of 212,992). SetReadBuffer is capped at net.core.rmem_max: 184
// slices if that is the same. Without Burst the buffer must hold the slices that Config.Rate
// allows between two reads: at 125,000 bytes a second and 60 reads a second, 3 slices. Lost slices
// are sent again after ResendDelay, so a buffer that is too small costs time and causes no error.
//
// # Beyond the article
//
// The zero Config is what the article describes. Config.Pipeline chunks may be in flight,
// which saves the round trip between two chunks. One more than are sent in a round trip
// fill a path without loss: 2 at 5 Mbit/s and 50 ms, 25 at 1 Gbit/s. With 1 % loss it takes
// up to five times as many, because later chunks wait for the last slice of the oldest one.
// Config.SliceSize may be larger, and the sender has a queue. The bugs of the article's
// example code are not copied: there, slices have no resend delay, a complete chunk is not
// acked until one of its slices arrives again, and a packet may contain slice 3 of 3.
//
// # Limits
//
// A chunk has 1 byte to MaxSlices * SliceSize. A receiver holds at most
// Config.ReceiveQueue chunks, a sender Config.Pipeline in flight and Config.SendQueue
// waiting. Anybody who can write packets of the protocol can forge slices and acks:
// over an open network the packets must be sent inside an authenticated connection.
//
// WIRE.md specifies the bytes.
package chunk
