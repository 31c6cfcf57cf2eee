// Package chunk sends large blocks of data reliably over packets that may be lost. It
// implements the chunk protocol of Glenn Fiedler's article "Sending Large Blocks of
// Data", bit for bit.
//
// A chunk is a block of up to 256 slices of 1,024 bytes. A [Sender] sends each slice in a
// separate packet, and resends it until it is acked. A [Receiver] assembles the chunk
// and answers with acks that have a bit for every slice. Bits are never cleared, so a lost
// or late ack does no harm. Chunks arrive complete, once, and in the order in which they
// were passed to Send.
//
// Neither end has a clock, a goroutine or a lock. The owner, which is also called the driver,
// passes the time, sends and receives the packets, and calls again at NextTimeout:
//
//	s, err := chunk.NewSender(chunk.Config{})    r, err := chunk.NewReceiver(chunk.Config{})
//	s.Send(data)
//	p, ok := s.AppendSlice(now, buf)     ---->   r.ReceiveSlice(now, p)
//	s.ReceiveAck(now, p)                 <----   p, ok := r.AppendAck(now, buf)
//	s.Done()                                     id, data, ok := r.Chunk()
//
// A driver with its own packet format, such as encrypted packets, uses NextSlice, Insert, NextAck
// and Acknowledge, and encodes the slices and acks itself.
//
// A driver that learns which packets were lost calls Lost. Otherwise a slice is resent when its
// ack is late. If packets change to another path, call Restart at both ends, which keeps the
// slices that have already arrived.
//
// If packets of both directions arrive on one socket, Config.Parse distinguishes slices from
// acks. Pass its result to Insert or Acknowledge.
//
// Time never goes backward: a now that is earlier than a previous one counts as the previous one.
// Senders and Receivers are not safe for concurrent use.
//
// # Lifetime
//
// Packets do not identify the Sender or Receiver that made them, so the two ends of a direction
// must begin and end together. If one of them is replaced, after a crash or a cancellation, the
// other must be replaced as well. Both then need a new ProtocolID, on which the programs must
// agree in their handshake, so that late packets of the former pair are malformed.
//
// If only the sender is replaced, the receiver acks the new sender's first chunks because it has
// already returned chunks with those ids, so Done is true although nothing was received. Or it
// joins slices of the old and the new sender in one chunk. If only the receiver is replaced, it
// ignores the slices of the old sender forever. Restart does not help in these cases.
//
// A Sender never gives up. A driver with a timeout should watch SenderStats.AckedBytes. A chunk
// cannot be taken back after Send, so a driver that may cancel should pass only a few chunks at a
// time (Config.SendQueue).
//
// # Pacing
//
// Config.Rate is the article's budget in bytes per second. Unused bytes accumulate for up to 250
// ms, so that a driver that calls less often still gets the whole rate. No bytes accumulate while
// there is nothing to send.
//
// A slice is resent no sooner than 1.25 round-trip times after it was last sent, or 100 ms while
// the RTT is unknown. On paths shorter than 60 ms it waits a little longer, because a receiver
// may wait for Config.AckDelay before it acks.
//
// A growing queue must not be mistaken for loss, so a slice that no later slice has overtaken
// waits as long as acks of other slices arrive. Each time slices are resent because acks are
// missing, the delay doubles (RFC 6298, section 5.5), up to 16 times or to one second, except
// that the first two times do not double it once the RTT is known. The ack of a slice that was
// sent once gives a round-trip time and ends the doubling.
//
// If no ack at all arrives for eight such delays, the sender only probes: it sends single
// slices, one per doubled delay, until an ack arrives. None of this reacts to congestion. On a
// shared path, the driver must set the rate or take slices only as its own controller allows.
//
// Config.Burst, the article's initial burst, is for load screens and connections that only wait
// for the chunk. It sends 256 slices back to back, whatever the rate. During a game, the burst
// would share queues with the game's packets, which would wait 0.4 s for a whole chunk at 5
// Mbit/s, and a short queue would drop packets of the game as well as slices.
//
// # Socket buffers
//
// The receiver's socket buffers packets between two reads, and silently drops those that do
// not fit. Linux counts a packet with a slice of 1,024 bytes as 2,304 bytes, and doubles
// the size given to SetReadBuffer. So set 1,152 bytes for each slice: 300 KiB for a whole
// chunk in one burst, times Config.Pipeline if that many chunks may arrive at once.
//
// A socket holds 92 slices if net.core.rmem_default has its usual value of 212,992. SetReadBuffer
// is capped at net.core.rmem_max, so with the same value there, the socket holds at most 184.
//
// Without Burst, the buffer must hold the slices that Config.Rate allows between two reads, which
// are 3 at 125,000 bytes per second and 60 reads per second. A buffer that is too small causes no
// error but costs time, because dropped slices are resent after ResendDelay.
//
// # Beyond the article
//
// The zero Config is what the article describes. In addition, Config.SliceSize may be
// larger, the sender has a queue, and Config.Pipeline chunks may be in flight.
//
// A pipeline saves the round trip between two chunks. Without loss, the path is full with one
// chunk more than are sent in a round trip: 2 at 5 Mbit/s and 50 ms, 25 at 1 Gbit/s. With 1 %
// loss, up to five times as many are needed, because later chunks wait for the last slice of the
// oldest one.
//
// The bugs of the article's example code are not copied: there, slices have no resend delay, a
// complete chunk is not acked until one of its slices arrives again, and a packet may contain
// slice 3 of 3.
//
// # Limits
//
// A chunk has 1 byte to MaxSlices * SliceSize. A receiver holds at most Config.ReceiveQueue
// chunks. A sender holds Config.Pipeline chunks in flight and Config.SendQueue waiting.
//
// Anybody who can send packets of the protocol can forge slices and acks, so over an open network
// they must be sent inside an authenticated connection.
//
// WIRE.md specifies the bytes.
package chunk
