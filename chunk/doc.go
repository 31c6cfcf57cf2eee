// Package chunk sends large blocks of data reliably over packets that may be lost. It
// implements the chunk protocol of Glenn Fiedler's article "Sending Large Blocks of
// Data", bit for bit.
//
// A chunk is a block of up to 256 slices of 1,024 bytes. A [Sender] sends each slice in a
// packet of its own, and resends it until it is acked. A [Receiver] assembles the chunk
// and answers with acks that have a bit for every slice. Bits are never cleared, so a lost
// or late ack does no harm. Chunks arrive complete, once, and in the order in which they
// were passed to Send.
//
// Neither end has a clock, a goroutine or a lock. The owner passes the time, sends and
// receives the packets, and calls again at NextTimeout:
//
//	s, err := chunk.NewSender(chunk.Config{})    r, err := chunk.NewReceiver(chunk.Config{})
//	s.Send(data)
//	p, ok := s.AppendSlice(now, buf)     ---->   r.ReceiveSlice(now, p)
//	s.ReceiveAck(now, p)                 <----   p, ok := r.AppendAck(now, buf)
//	s.Done()                                     id, data, ok := r.Chunk()
//
// A driver with a packet format of its own, for instance encrypted packets, uses NextSlice,
// Insert, NextAck and Acknowledge, and encodes the slices and acks itself.
//
// A driver that learns which packets were lost calls Lost. Otherwise a slice is resent when
// its ack is late. If packets change to another path, call Restart at both ends. Slices
// that have already arrived are kept.
//
// If packets of both directions arrive on one socket, Config.Parse distinguishes slices
// from acks. Pass its result to Insert or Acknowledge.
//
// Time never goes backward: a now earlier than a previous one counts as the previous one.
// Senders and Receivers are not safe for concurrent use.
//
// # Lifetime
//
// Packets do not identify the Sender or Receiver that made them, so the two ends of a
// direction begin and end together. If one of them is replaced, after a crash or a cancel, the
// other must be replaced as well. Both then need another ProtocolID, on which the handshake of
// the two programs must agree. Late packets of the former pair are then malformed.
//
// Without that, a receiver acks the first chunks of a new sender because it has already
// returned chunks with those ids. Done is then true although nothing was received. Or the
// receiver joins slices of the old and the new sender in one chunk. A new receiver ignores
// the slices of an old sender forever. Restart is not for this.
//
// A Sender never gives up. A driver with a timeout should watch SenderStats.AckedBytes. A
// chunk passed to Send cannot be taken back, so a driver that may cancel should pass only a
// few at a time (Config.SendQueue).
//
// # Pacing
//
// Config.Rate is the article's budget in bytes per second. Unused bytes accumulate for
// up to 250 ms, and are sent at once if the driver calls that late. Time with nothing
// to send adds none.
//
// A slice is resent no sooner than RTT * 1.25 after it was last sent, or 100 ms while the
// RTT is unknown. On paths shorter than 60 ms it waits a little longer, because a receiver
// may wait Config.AckDelay before it acks.
//
// A growing queue is not a loss. A slice that no later slice has overtaken waits as long
// as acks of others arrive. Each time slices are resent for want of an ack, the delay
// doubles (RFC 6298, section 5.5), up to 16 times or a second. Once the RTT is known, the
// first two times do not double it. The ack of a slice that was sent once gives a round
// trip and ends the doubling.
//
// If no ack at all arrives for eight such delays, the sender only probes: it sends single
// slices, one per doubled delay, until an ack arrives. None of this reacts to congestion. On a
// shared path the driver must set the rate, or take slices only as its own controller allows.
//
// Config.Burst, the article's initial burst, is for load screens and connections that only
// wait for the chunk. Then 256 slices are sent back to back, whatever the rate. During a
// game, the burst shares queues with the game's packets. At 5 Mbit/s these wait 0.4 s for a
// whole chunk, and a short queue drops packets of the game as well as slices.
//
// # Socket buffers
//
// The receiver's socket buffers packets between two reads, and silently drops those that do
// not fit. Linux counts a packet with a slice of 1,024 bytes as 2,304 bytes, and doubles
// the size given to SetReadBuffer. So set 1,152 bytes for each slice: 300 KiB for a whole
// chunk in one burst, times Config.Pipeline if that many chunks may arrive at once.
//
// By default a socket holds 92 slices (net.core.rmem_default of 212,992). SetReadBuffer is
// capped at net.core.rmem_max; with the same value there, it holds at most 184 slices.
//
// Without Burst, the buffer must hold the slices that Config.Rate allows between two reads:
// at 125,000 bytes per second and 60 reads per second, 3 slices. Lost slices are resent
// after ResendDelay, so a buffer that is too small costs time and causes no error.
//
// # Beyond the article
//
// The zero Config is what the article describes. In addition, Config.SliceSize may be
// larger, the sender has a queue, and Config.Pipeline chunks may be in flight.
//
// A pipeline saves the round trip between two chunks. Without loss, a path is full with one
// chunk more than are sent in a round trip: 2 at 5 Mbit/s and 50 ms, 25 at 1 Gbit/s. With
// 1 % loss it takes up to five times as many, because later chunks wait for the last slice
// of the oldest one.
//
// The bugs of the article's example code are not copied. There, slices have no resend
// delay, a complete chunk is not acked until one of its slices arrives again, and a packet
// may contain slice 3 of 3.
//
// # Limits
//
// A chunk has 1 byte to MaxSlices * SliceSize. A receiver holds at most Config.ReceiveQueue
// chunks. A sender holds Config.Pipeline chunks in flight and Config.SendQueue waiting.
//
// Anybody who can write packets of the protocol can forge slices and acks. Over an open
// network the packets must be sent inside an authenticated connection.
//
// WIRE.md specifies the bytes.
package chunk
