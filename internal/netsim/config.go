package netsim

import (
	"errors"
	"fmt"
	"time"
)

const (
	// defaultQueue is the smallest queue in bytes that a bottleneck gets by default.
	defaultQueue = 64 << 10
	// defaultReorderDelay is the shortest delay that a reordered packet gets by default.
	defaultReorderDelay = time.Millisecond
	// UDPOverhead is the number of bytes IPv4 and UDP add to a datagram.
	UDPOverhead = 20 + 8

	maxRate  = 1e12    // bit/s; above it, 125 bytes would take less than a nanosecond, the clock's resolution
	maxQueue = 1 << 30 // bytes; keeps queue times within 63 bits of nanoseconds at 1 byte/s
)

// Config describes one direction of a path. The zero value is a perfect path: no delay, no
// loss, no limits.
type Config struct {
	// Delay is the one-way propagation time, to which each packet adds a random time of up to
	// Jitter, uniformly distributed. Jitter alone never makes packets overtake each other,
	// unlike Reorder.
	Delay, Jitter time.Duration
	// Clump, if not 0, makes packets arrive only at multiples of Clump, as from a MAC layer
	// that sends in batches.
	Clump time.Duration

	// Loss is the probability that a packet is lost, independent of other packets. Burst adds
	// losses in a row.
	Loss  float64
	Burst Burst
	// Loss and Burst apply only to packets from LossMin to LossMax bytes, where 0 means no
	// bound. A packet of any other size is lost with probability LossBeyond.
	LossMin, LossMax int
	LossBeyond       float64
	// Lose, if not nil, is called for packets that reach the lossy part, and decides which of
	// them are lost in addition. n counts all packets that were put into the link before.
	Lose func(n uint64, packet []byte) bool

	// Rate is the bottleneck's rate in bit/s. If it's 0, there is no bottleneck.
	Rate int64
	// Queue is the maximum number of bytes in the bottleneck's queue, including overhead and
	// the unsent rest of the packet being sent. A packet that doesn't fit is dropped, unless
	// the queue is empty, because an empty queue accepts any packet.
	//
	// The default is max(Rate * 2 * Delay, 64 KiB), which is one bandwidth-delay product if
	// both directions have the same Delay.
	Queue int
	// CoDel and PIE drop packets before the queue is full. CoDel does so while there is a
	// standing queue (RFC 8289). PIE drops the share of packets that keeps the queue at 15 ms
	// (RFC 8033), as cable modems do.
	CoDel, PIE bool
	// Police, if not 0, is the rate in bit/s of a token bucket of Bucket bytes before the
	// bottleneck. Packets that exceed it are dropped at once rather than queued.
	Police int64
	Bucket int
	// Overhead is how many bytes each packet counts in addition to its own, in the bottleneck
	// and in Stats.CarriedBytes. The default is UDPOverhead, and a negative value means none.
	Overhead int

	// Duplicate is the probability that a packet arrives twice.
	Duplicate float64
	// Reorder is the probability that a packet is delayed by ReorderDelay and overtaken by later
	// ones. The default of ReorderDelay is max(Delay/4, 1 ms).
	Reorder      float64
	ReorderDelay time.Duration
	// Alternate is a delay that is added to every other packet, so that packets overtake each
	// other.
	Alternate time.Duration

	// MTU is the size in bytes of the largest packet that the path carries, without overhead.
	// Anything larger disappears silently, as in a black hole. If it's 0, there is no limit.
	MTU int

	// Seed decides every random draw.
	Seed uint64
}

// Burst is the Gilbert-Elliott model of a path that loses packets in bursts. The path is either
// good or bad, and each packet that reaches the lossy part may change its state.
//
// The mean loss is Loss*Enter/(Enter+Leave), and the mean length of a burst is 1/Leave packets. If
// Enter is 0, there are no bursts.
type Burst struct {
	Enter float64 // probability that a packet turns a good path bad, and so begins a burst
	Leave float64 // probability that a packet turns a bad path good
	Loss  float64 // probability that a packet is lost while the path is bad; 1 by default
	// Idle is how long it takes until a bad path becomes good again although no packet reaches
	// the lossy part, as a radio's fade ends even if nothing is sent. If it's 0, only packets
	// end a burst, so a burst of 20 packets may swallow ten seconds of occasional retries.
	Idle time.Duration
}

// Bursts returns the model that loses the given share of all packets, in bursts of the given mean
// length. If the share is above a half, length must be at least loss/(1-loss), because there is a
// packet between any two bursts.
func Bursts(loss, length float64) Burst {
	leave := 1 / length
	return Burst{Enter: min(1, leave*loss/(1-loss)), Leave: leave, Loss: 1}
}

// Validate returns an error that names the first field with an invalid value.
func (c Config) Validate() error {
	for _, p := range []struct {
		name  string
		value float64
	}{
		{"Loss", c.Loss}, {"LossBeyond", c.LossBeyond}, {"Duplicate", c.Duplicate}, {"Reorder", c.Reorder},
		{"Burst.Enter", c.Burst.Enter}, {"Burst.Leave", c.Burst.Leave}, {"Burst.Loss", c.Burst.Loss},
	} {
		if !(p.value >= 0 && p.value <= 1) {
			return fmt.Errorf("netsim: %s is %v; it must be from 0 to 1", p.name, p.value)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Delay", c.Delay}, {"Jitter", c.Jitter}, {"Clump", c.Clump}, {"Burst.Idle", c.Burst.Idle},
		{"ReorderDelay", c.ReorderDelay}, {"Alternate", c.Alternate},
	} {
		if d.value < 0 {
			return fmt.Errorf("netsim: %s is %v; it must not be negative", d.name, d.value)
		}
	}
	if c.Rate < 0 || c.Rate > maxRate {
		return fmt.Errorf("netsim: Rate is %d bit/s; it must be from 0 to %.0f", c.Rate, maxRate)
	}
	if c.Queue < 0 || c.Queue > maxQueue {
		return fmt.Errorf("netsim: Queue is %d bytes; it must be from 0 to %d", c.Queue, maxQueue)
	}
	if c.Police < 0 || c.Police > maxRate {
		return fmt.Errorf("netsim: Police is %d bit/s; it must be from 0 to %.0f", c.Police, maxRate)
	}
	if c.Bucket < 0 || c.Police > 0 && c.Bucket == 0 {
		return fmt.Errorf("netsim: Bucket is %d bytes; it must be positive if Police is set", c.Bucket)
	}
	if c.LossMin < 0 || c.LossMax < 0 || c.LossMax > 0 && c.LossMin > c.LossMax {
		return fmt.Errorf("netsim: LossMin is %d bytes and LossMax %d; neither may be negative, and LossMin may not be larger",
			c.LossMin, c.LossMax)
	}
	if c.MTU < 0 {
		return fmt.Errorf("netsim: MTU is %d bytes; it must not be negative", c.MTU)
	}
	if c.Burst.Enter > 0 && c.Burst.Leave == 0 {
		return errors.New("netsim: Burst.Leave is 0, so the first burst would never end")
	}
	return nil
}

// mustValidate panics if Validate returns an error.
func (c Config) mustValidate() {
	if err := c.Validate(); err != nil {
		panic(err)
	}
}

// losable reports whether Loss and Burst apply to a packet of size bytes.
func (c Config) losable(size int) bool {
	return size >= c.LossMin && (c.LossMax == 0 || size <= c.LossMax)
}

// lossOf returns the probability that Loss or LossBeyond loses a packet.
func (c Config) lossOf(losable bool) float64 {
	if losable {
		return c.Loss
	}
	return c.LossBeyond
}

// queue returns the effective Queue.
func (c Config) queue() int {
	if c.Queue > 0 {
		return c.Queue
	}
	bdp := float64(c.Rate) / 8 * 2 * c.Delay.Seconds()
	return int(min(max(bdp, defaultQueue), maxQueue))
}

// overhead returns the effective Overhead.
func (c Config) overhead() int {
	if c.Overhead == 0 {
		return UDPOverhead
	}
	return max(c.Overhead, 0)
}

// reorderDelay returns the effective ReorderDelay.
func (c Config) reorderDelay() time.Duration {
	if c.ReorderDelay > 0 {
		return c.ReorderDelay
	}
	return max(c.Delay/4, defaultReorderDelay)
}

// loss returns the effective Loss.
func (b Burst) loss() float64 {
	if b.Loss == 0 {
		return 1
	}
	return b.Loss
}
