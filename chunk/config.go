package chunk

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

const (
	// maxPipeline is the maximum number of chunks in flight, and how many finished chunks a
	// receiver remembers: 256 MiB of the largest chunks that the article allows.
	maxPipeline = 1024

	maxRate  = 2_000_000_000    // bytes per second; fits an int on every platform
	maxDelay = 10 * time.Second // maximum of ResendDelay and AckDelay
)

// Config configures a Sender or a Receiver. ProtocolID and SliceSize must be the
// same at both ends.
//
// A field that is zero takes its default. The zero Config is the article's protocol, and is
// compatible with its reference code.
type Config struct {
	// ProtocolID is part of every checksum, so that packets of another protocol are rejected.
	// 0 = 0x11223344, the reference's. The functions AppendSlice, AppendAck and Parse use the
	// same default.
	ProtocolID uint32
	// SliceSize is the slice size in bytes, 64 to 32,768. 0 = 1,024, the only value that the
	// reference understands.
	SliceSize int

	// Pipeline is the maximum number of chunks in flight, 1 to 1,024. 0 = 1, as in the article;
	// then a round trip passes between the end of one chunk and the start of the next.
	Pipeline int
	// SendQueue is the maximum number of chunks waiting besides those in flight.
	// 0 = 64, negative = none.
	SendQueue int
	// ReceiveQueue is the maximum number of chunks that a receiver holds until they are
	// taken, complete or not. A receiver uses at most ReceiveQueue * MaxSlices * SliceSize
	// bytes. 0 = Pipeline.
	//
	// ReceiveQueue should not be less than the sender's Pipeline, because the receiver ignores
	// slices of any further chunks, and the sender has to resend them.
	ReceiveQueue int

	// Rate is the maximum send rate in bytes per second. 0 = 125,000, the most aggressive
	// rate in the article. Negative = no limit, for drivers that limit the rate themselves.
	Rate int
	// Overhead is charged to Rate for each packet in addition to its slice, in bytes, to
	// account for headers. 0 = none, as in the article's figures.
	Overhead int

	// Burst sends the first chunk after an idle period at once, regardless of Rate, and
	// then pauses for 100 ms. Chunks above 256 KiB never burst.
	//
	// It is for load screens only, because a burst delays whatever else the path carries, by
	// 0.4 s at 5 Mbit/s. The receiver's socket needs a buffer for the whole chunk (see Socket
	// buffers in the package comment).
	Burst bool

	// ResendDelay is how long a slice waits for its ack while the RTT is unknown. 0 = 100 ms.
	ResendDelay time.Duration
	// AckDelay is how far apart two acks of an incomplete chunk are at least. 0 = 10 ms,
	// negative = no delay.
	AckDelay time.Duration
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	c = c.effective()
	switch {
	case c.SliceSize < minSliceSize || c.SliceSize > maxSliceSize:
		return fmt.Errorf("chunk: Config.SliceSize is %d; %d to %d are possible",
			c.SliceSize, minSliceSize, maxSliceSize)
	case c.Pipeline < 1 || c.Pipeline > maxPipeline:
		return fmt.Errorf("chunk: Config.Pipeline is %d; 1 to %d are possible", c.Pipeline, maxPipeline)
	case c.ReceiveQueue < 1 || c.ReceiveQueue > maxPipeline:
		return fmt.Errorf("chunk: Config.ReceiveQueue is %d; 1 to %d are possible", c.ReceiveQueue, maxPipeline)
	case c.SendQueue > 1<<20:
		return fmt.Errorf("chunk: Config.SendQueue is %d; %d is the most", c.SendQueue, 1<<20)
	case c.Rate > maxRate:
		return fmt.Errorf("chunk: Config.Rate is %d; %d bytes a second is the most; negative = no limit",
			c.Rate, maxRate)
	case c.Overhead < 0 || c.Overhead > 1<<16:
		return fmt.Errorf("chunk: Config.Overhead is %d; 0 to %d are possible", c.Overhead, 1<<16)
	case c.ResendDelay < time.Millisecond || c.ResendDelay > maxDelay:
		return fmt.Errorf("chunk: Config.ResendDelay is %v; 1ms to %v are possible", c.ResendDelay, maxDelay)
	case c.AckDelay > maxDelay:
		return fmt.Errorf("chunk: Config.AckDelay is %v; %v is the most", c.AckDelay, maxDelay)
	}
	return nil
}

// effective returns c with its defaults filled in, and with 0 where a
// negative value means none.
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
	ErrEmpty     = errors.New("chunk: a chunk has at least 1 byte")
	ErrTooLarge  = errors.New("chunk: chunk too large")
	ErrQueueFull = errors.New("chunk: send queue is full")
)
