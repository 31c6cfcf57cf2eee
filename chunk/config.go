package chunk

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

const (
	// maxPipeline is the maximum number of chunks in flight, and the number of finished chunks that
	// a receiver remembers. 1,024 of the largest chunks that the article allows have 256 MiB.
	maxPipeline = 1024
	// These maxima are far beyond useful values and only catch mistakes.
	maxSendQueue = 1 << 20
	maxOverhead  = 1 << 16

	maxRate  = 2_000_000_000    // bytes per second; fits an int on every platform
	maxDelay = 10 * time.Second // maximum of ResendDelay and AckDelay
)

// Config configures a Sender or a Receiver. ProtocolID and SliceSize must be the same at both ends.
//
// Zero fields take their defaults. The zero Config is the article's protocol, and is compatible
// with its reference code.
type Config struct {
	// ProtocolID is part of every checksum, so that packets of another protocol are rejected.
	// The default is 0x11223344, as in the reference. The functions AppendSlice, AppendAck and
	// Parse use the same default.
	ProtocolID uint32
	// SliceSize is the slice size in bytes, from 64 to 32,768. The default is 1,024, the only value
	// that the reference understands.
	SliceSize int

	// Pipeline is the maximum number of chunks in flight, from 1 to 1,024. The default is 1, as in
	// the article, so that a round trip passes between the end of one chunk and the start of the
	// next.
	Pipeline int
	// SendQueue is the maximum number of chunks that wait in addition to those in flight. The
	// default is 64. A negative value means none.
	SendQueue int
	// ReceiveQueue is the maximum number of chunks, complete or not, that a receiver holds until
	// they are taken. A receiver uses at most ReceiveQueue * MaxSlices * SliceSize bytes. The
	// default is Pipeline.
	//
	// ReceiveQueue should not be less than the sender's Pipeline, because the receiver ignores
	// slices of any further chunks, which the sender then has to resend.
	ReceiveQueue int

	// Rate is the maximum send rate in bytes per second. The default is 125,000, the most
	// aggressive rate in the article. A negative value means no limit, for drivers that limit the
	// rate themselves.
	Rate int
	// Overhead is the number of bytes per packet that count toward Rate in addition to the slice,
	// to account for headers. The default is none, as in the article's figures.
	Overhead int

	// Burst sends the first chunk after an idle period all at once, regardless of Rate, and then
	// pauses for 100 ms. Chunks above 256 KiB never burst.
	//
	// It is for load screens only, because a burst delays whatever else the path carries, by
	// 0.4 s at 5 Mbit/s. The receiver's socket needs a buffer for the whole chunk (see Socket
	// buffers in the package comment).
	Burst bool

	// ResendDelay is how long a slice waits for its ack while the RTT is unknown. The default is
	// 100 ms.
	ResendDelay time.Duration
	// AckDelay is the minimum time between two acks of an incomplete chunk. The default is 10 ms. A
	// negative value means no delay.
	AckDelay time.Duration
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	c = c.effective()
	switch {
	case c.SliceSize < minSliceSize || c.SliceSize > maxSliceSize:
		return fmt.Errorf("chunk: Config.SliceSize is %d; it must be %d to %d",
			c.SliceSize, minSliceSize, maxSliceSize)
	case c.Pipeline < 1 || c.Pipeline > maxPipeline:
		return fmt.Errorf("chunk: Config.Pipeline is %d; it must be 1 to %d", c.Pipeline, maxPipeline)
	case c.ReceiveQueue < 1 || c.ReceiveQueue > maxPipeline:
		return fmt.Errorf("chunk: Config.ReceiveQueue is %d; it must be 1 to %d", c.ReceiveQueue, maxPipeline)
	case c.SendQueue > maxSendQueue:
		return fmt.Errorf("chunk: Config.SendQueue is %d; the maximum is %d", c.SendQueue, maxSendQueue)
	case c.Rate > maxRate:
		return fmt.Errorf("chunk: Config.Rate is %d bytes per second; the maximum is %d: use -1 for no limit",
			c.Rate, maxRate)
	case c.Overhead < 0 || c.Overhead > maxOverhead:
		return fmt.Errorf("chunk: Config.Overhead is %d; it must be 0 to %d", c.Overhead, maxOverhead)
	case c.ResendDelay < time.Millisecond || c.ResendDelay > maxDelay:
		return fmt.Errorf("chunk: Config.ResendDelay is %v; it must be %v to %v",
			c.ResendDelay, time.Millisecond, maxDelay)
	case c.AckDelay > maxDelay:
		return fmt.Errorf("chunk: Config.AckDelay is %v; the maximum is %v", c.AckDelay, maxDelay)
	}
	return nil
}

// effective returns c with its defaults filled in, and with 0 where a negative value means none.
func (c Config) effective() Config {
	c.SliceSize = cmp.Or(c.SliceSize, defaultSliceSize)
	c.Pipeline = cmp.Or(c.Pipeline, 1)
	c.SendQueue = max(cmp.Or(c.SendQueue, 64), 0)
	c.ReceiveQueue = cmp.Or(c.ReceiveQueue, c.Pipeline)
	c.Rate = cmp.Or(c.Rate, 125_000)
	c.ResendDelay = cmp.Or(c.ResendDelay, 100*time.Millisecond)
	c.AckDelay = max(cmp.Or(c.AckDelay, 10*time.Millisecond), 0)
	return c
}

// Parse is like the function Parse, with c's ProtocolID and SliceSize.
func (c Config) Parse(packet []byte) (Packet, error) {
	return parse(packet, c.ProtocolID, cmp.Or(c.SliceSize, defaultSliceSize))
}

// AppendSlice is like the function AppendSlice, with c's ProtocolID and SliceSize.
func (c Config) AppendSlice(b []byte, s Slice) []byte {
	return appendSlice(b, c.ProtocolID, cmp.Or(c.SliceSize, defaultSliceSize), s)
}

// AppendAck is like the function AppendAck, with c's ProtocolID.
func (c Config) AppendAck(b []byte, a Ack) []byte { return AppendAck(b, c.ProtocolID, a) }

// Errors returned by Sender.Send, which wraps them with details.
var (
	ErrEmpty     = errors.New("chunk: chunk is empty")
	ErrTooLarge  = errors.New("chunk: chunk too large")
	ErrQueueFull = errors.New("chunk: send queue is full")
)
