package chunk

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

const (
	// maxPipeline limits the chunks in flight, and so how many finished chunks
	// a receiver must remember: 256 MiB of the article's largest chunks.
	maxPipeline = 1024

	maxRate  = 2_000_000_000    // bytes a second; fits an int on every platform
	maxDelay = 10 * time.Second // of ResendDelay and AckDelay
)

// Config configures either end. A field that is zero takes its default. The
// zero Config is the article's protocol, compatible with its reference code.
// ProtocolID and SliceSize must be the same at both ends.
type Config struct {
	// Part of every checksum; 0 = 0x11223344, the reference's, here and in
	// AppendSlice, AppendAck and Parse.
	ProtocolID uint32
	SliceSize  int // bytes of a slice, 64 to 32,768; 0 = 1,024, the only value that the reference understands

	// Pipeline is how many chunks may be in flight, up to 1,024. 0 = 1, as in
	// the article; then there is a round trip between any two chunks.
	Pipeline int
	// SendQueue is how many chunks may wait besides those in flight; 0 = 64, negative = none.
	SendQueue int
	// ReceiveQueue is how many chunks a receiver holds, incomplete and complete,
	// until they are taken. Slices of further chunks are ignored, and are sent
	// again. So a receiver holds at most ReceiveQueue * MaxSlices * SliceSize
	// bytes. ReceiveQueue should not be below the sender's Pipeline. 0 = Pipeline.
	ReceiveQueue int

	// Bytes a second; 0 = 125,000, the article's most aggressive rate; negative
	// = no limit, for drivers that have their own.
	Rate int
	// Bytes charged to Rate for a packet besides its slice, for headers; 0 =
	// none, as in the article's figures.
	Overhead int

	// Burst sends the first chunk after an idle period at once, without Rate, and then
	// pauses for 100 ms. Chunks above 256 KiB never burst. It is for load screens
	// only: the burst delays whatever else the path carries, by 0.4 s at 5 Mbit/s, and
	// needs a receive buffer for all of it (see the package's Socket buffers).
	Burst bool

	ResendDelay time.Duration // how long a slice waits for its ack while the RTT is unknown; 0 = 100 ms
	AckDelay    time.Duration // least time between two acks of an incomplete chunk; 0 = 10 ms, negative = no delay
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	c = c.effective()
	switch {
	case c.SliceSize < minSliceSize || c.SliceSize > maxSliceSize:
		return fmt.Errorf("chunk: Config.SliceSize is %d; %d to %d are possible", c.SliceSize, minSliceSize, maxSliceSize)
	case c.Pipeline < 1 || c.Pipeline > maxPipeline:
		return fmt.Errorf("chunk: Config.Pipeline is %d; 1 to %d are possible", c.Pipeline, maxPipeline)
	case c.ReceiveQueue < 1 || c.ReceiveQueue > maxPipeline:
		return fmt.Errorf("chunk: Config.ReceiveQueue is %d; 1 to %d are possible", c.ReceiveQueue, maxPipeline)
	case c.SendQueue > 1<<20:
		return fmt.Errorf("chunk: Config.SendQueue is %d; %d is the most", c.SendQueue, 1<<20)
	case c.Rate > maxRate:
		return fmt.Errorf("chunk: Config.Rate is %d; %d bytes a second is the most; negative = no limit", c.Rate, maxRate)
	case c.Overhead < 0 || c.Overhead > 1<<16:
		return fmt.Errorf("chunk: Config.Overhead is %d; 0 to %d are possible", c.Overhead, 1<<16)
	case c.ResendDelay < time.Millisecond || c.ResendDelay > maxDelay:
		return fmt.Errorf("chunk: Config.ResendDelay is %v; 1ms to %v are possible", c.ResendDelay, maxDelay)
	case c.AckDelay > maxDelay:
		return fmt.Errorf("chunk: Config.AckDelay is %v; %v is the most", c.AckDelay, maxDelay)
	}
	return nil
}

// effective returns c with its defaults, and with 0 for none.
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

// Parse is the function of the same name for this ProtocolID and SliceSize.
func (c Config) Parse(packet []byte) (Packet, error) {
	return parse(packet, c.ProtocolID, cmp.Or(c.SliceSize, defaultSliceSize))
}

// AppendSlice is the function of the same name for this ProtocolID and SliceSize.
func (c Config) AppendSlice(b []byte, s Slice) []byte {
	return appendSlice(b, c.ProtocolID, cmp.Or(c.SliceSize, defaultSliceSize), s)
}

// AppendAck is the function of the same name for this ProtocolID.
func (c Config) AppendAck(b []byte, a Ack) []byte { return AppendAck(b, c.ProtocolID, a) }

// Errors of Send. What it returns Is one of these (errors.Is).
var (
	ErrEmpty     = errors.New("chunk: a chunk has at least 1 byte")
	ErrTooLarge  = errors.New("chunk: chunk too large")
	ErrQueueFull = errors.New("chunk: send queue is full")
)
