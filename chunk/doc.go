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
// A driver with packets of its own, sealed ones for instance, uses NextSlice, Insert, NextAck and Acknowledge, which leave
// the bytes on the wire to it. One that sees which packets were lost tells with Lost; without, a slice is sent again when its
// ack is late. When the packets get another path, Restart at both ends keeps what has arrived.
//
// # Pace
//
// Config.Rate is the article's budget in bytes a second; what is left over of it stays, time without anything to send does not.
// A slice is sent again no sooner than RTT * 1.25 after the last time, 100 ms while the RTT is not known, and on paths
// shorter than 60 ms a little later, because a receiver may wait Config.AckDelay with its ack. One that no later slice has
// overtaken waits as long as acks of others keep coming, and when it has been sent again without an ack the delay doubles
// (RFC 6298, 5.5), up to 16 times itself or a second, until the ack of a slice that was sent once tells the round trip:
// a queue that grows is no loss. When nothing at all was heard for eight such delays,
// single slices go out, one a doubled delay, until an ack comes. Nothing of this reacts to congestion: a driver on a shared
// path sets the rate, or takes slices as its own controller allows.
//
// Config.Burst, the initial burst, is for load screens and connections that only wait for the chunk, as the article says:
// 256 slices leave back to back, whatever the rate. While a game is played they stand in the same queues as its packets: at
// 5 Mbit/s those wait 0.4 s behind a whole chunk, and what a short queue cannot hold is lost, theirs as well as slices.
//
// # Socket buffers
//
// The receiver's socket holds what arrives between two reads, and drops the rest without a word. Linux charges a packet
// with a slice of 1,024 bytes as 2,304, and doubles what SetReadBuffer asks for: so ask for 1,152 bytes a slice, 300 KiB for
// a whole chunk that comes in one burst, times Config.Pipeline where that many may come at once. Unasked it holds 92 slices
// (net.core.rmem_default of 212,992), and SetReadBuffer goes no further than net.core.rmem_max, often as small, which is
// 184. Without Burst the buffer must hold what Config.Rate lets through between two reads: at 125,000 bytes a second and 60
// reads, 3 slices. Lost slices come again after ResendDelay: a buffer that is too small shows as time, not as an error.
//
// # Beyond the article
//
// The zero Config is what the article describes. Config.Pipeline chunks may be in flight, which saves the round trip between
// two chunks; Config.SliceSize may be larger; a queue stands in front of the sender. The faults of the article's example
// code are not copied: there, slices have no resend delay, a complete chunk is not acked until one of its slices comes
// again, and a packet may say that it holds slice 3 of 3.
//
// # Limits
//
// A chunk has 1 byte to MaxSlices * SliceSize. A receiver holds at most Config.ReceiveQueue of them, a sender Config.Pipeline
// in flight and Config.SendQueue in front. Whoever can write packets of the protocol can forge slices and acks: over an
// open network the packets belong inside an authenticated connection.
//
// WIRE.md has the bytes.
package chunk
