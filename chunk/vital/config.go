package vital

import (
	"cmp"
	"fmt"
	"time"
)

// Defaults and limits, as in the game where it has them. A timer fires when its time is
// exceeded, not when it is reached.
const (
	maxOutstanding = 511 // any further ahead, a receiver would take a new sequence for an old one

	defaultStore     = 32 << 10
	defaultQueue     = 32 << 10
	defaultReceive   = 64 << 10
	defaultTimeout   = 10 * time.Second
	defaultKeepAlive = time.Second
	defaultFlush     = 500 * time.Millisecond
	defaultResend    = time.Second
	defaultAck       = 100 * time.Millisecond // not the game's: its peers always have something to send

	// minRequest is how far apart two requests for a resend are at least, and two answers to
	// them. It is DDNet's limit.
	minRequest = 100 * time.Millisecond
	// repeatAfter is how long we wait before repeating a request that had no effect, in
	// intervals (see Conn.requestInterval).
	repeatAfter = 3

	// maxTime is 146 years, which keeps sums of times from overflowing.
	maxTime = 1 << 62

	// chunkShare limits the number of chunks wherever there is a limit in bytes, to one for each
	// 16 of them, however small the chunks are.
	chunkShare  = 16
	firstPlaces = 8   // initial capacity of a queue, in chunks
	maxReason   = 256 // maximum size of a close reason in bytes

	unknownToken = 0xffffffff // DDNet's token while the right one is not known yet
)

// Config configures one end of a connection. A field that is zero takes its default.
type Config struct {
	Version Version

	// Token must be in every packet that we receive, or it is dropped. PeerToken goes into every
	// packet that we send. In 0.6, either both are zero, for peers without tokens (0.6.4), or
	// neither is (0.6.5, DDNet).
	Token, PeerToken uint32
	// DDNet replaces the tokens of 0.6 with DDNet's security token, which follows the payload of
	// each packet and is the same at both ends.
	DDNet bool
	// Plain disables compression of sent packets. Otherwise they are compressed if that makes
	// them shorter. Received packets may be compressed in either case.
	Plain bool

	// MaxPacket is the maximum packet size in bytes, 64 to 1,400. 0 = 1,400.
	MaxPacket int
	// StoreBytes is the maximum size of unacknowledged vital chunks in bytes. In addition,
	// their number is limited to 511. 0 = 32 KiB.
	StoreBytes int
	// QueueBytes is the maximum size of other queued chunks in bytes. 0 = 32 KiB.
	QueueBytes int
	// ReceiveBytes is the maximum size of received chunks waiting for Next, in bytes.
	// 0 = 64 KiB.
	//
	// A vital chunk for which there is no room is not acknowledged, so that the peer resends it.
	// Other chunks are dropped while half of ReceiveBytes is in use.
	ReceiveBytes int

	// Timeout is how long the connection may receive no packet until it ends. It also ends if
	// vital chunks are outstanding and none is acknowledged for this long. 0 = 10 s.
	Timeout time.Duration
	// KeepAlive is how long the connection may send no packet until it sends an empty one.
	// 0 = 1 s.
	KeepAlive time.Duration
	// FlushAfter is how long after the last packet queued chunks are sent without a Flush.
	// 0 = 500 ms.
	FlushAfter time.Duration
	// ResendAfter is how long a vital chunk may be unacknowledged until it is resent without a
	// request. 0 = 1 s.
	ResendAfter time.Duration
	// AckAfter is how long the acknowledgement of a vital chunk waits for a packet to go with.
	// 0 = 100 ms. Negative = for as long as it takes, as in the game.
	AckAfter time.Duration
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	switch {
	case c.Version > V07:
		return fmt.Errorf("vital: Config.Version is %v; it must be V06 or V07", c.Version)
	case c.Version == V06 && (c.Token == 0) != (c.PeerToken == 0):
		return fmt.Errorf("vital: Config.Token is %08x and PeerToken %08x; 0.6 has both or none", c.Token, c.PeerToken)
	case c.DDNet && (c.Version != V06 || c.Token != c.PeerToken || c.Token == 0 || c.Token == unknownToken):
		return fmt.Errorf("vital: Config.DDNet in %v with Token %08x and PeerToken %08x; "+
			"it is for 0.6, both are the same, and 0 and ffffffff stand for none",
			c.Version, c.Token, c.PeerToken)
	case c.MaxPacket != 0 && (c.MaxPacket < 64 || c.MaxPacket > maxPacket):
		return fmt.Errorf("vital: Config.MaxPacket is %d; it must be 64 to %d", c.MaxPacket, maxPacket)
	}
	c = c.effective()
	return cmp.Or(
		notNegative("Timeout", c.Timeout),
		notNegative("KeepAlive", c.KeepAlive),
		notNegative("FlushAfter", c.FlushAfter),
		notNegative("ResendAfter", c.ResendAfter),
		c.checkBytes("StoreBytes", c.StoreBytes),
		c.checkBytes("QueueBytes", c.QueueBytes),
		c.checkBytes("ReceiveBytes", c.ReceiveBytes),
	)
}

// notNegative returns an error if a time is negative.
func notNegative(field string, value time.Duration) error {
	if value < 0 {
		return fmt.Errorf("vital: Config.%s is %v; it must not be negative", field, value)
	}
	return nil
}

// checkBytes returns an error if a limit in bytes is out of range.
func (c Config) checkBytes(field string, bytes int) error {
	smallest := 2 * c.maxChunk()
	if bytes < smallest || bytes > 1<<30 {
		return fmt.Errorf("vital: Config.%s is %d; it must be %d (two of the largest chunks) to %d",
			field, bytes, smallest, 1<<30)
	}
	return nil
}

// effective returns c with its defaults filled in.
func (c Config) effective() Config {
	c.MaxPacket = cmp.Or(c.MaxPacket, maxPacket)
	c.StoreBytes = cmp.Or(c.StoreBytes, defaultStore)
	c.QueueBytes = cmp.Or(c.QueueBytes, defaultQueue)
	c.ReceiveBytes = cmp.Or(c.ReceiveBytes, defaultReceive)
	c.Timeout = min(cmp.Or(c.Timeout, defaultTimeout), maxTime)
	c.KeepAlive = min(cmp.Or(c.KeepAlive, defaultKeepAlive), maxTime)
	c.FlushAfter = min(cmp.Or(c.FlushAfter, defaultFlush), maxTime)
	c.ResendAfter = min(cmp.Or(c.ResendAfter, defaultResend), maxTime)
	c.AckAfter = min(cmp.Or(c.AckAfter, defaultAck), maxTime)
	return c
}

// header returns the fields of a packet's header that are the same in every packet.
func (c Config) header() PacketHeader {
	if c.DDNet {
		return PacketHeader{}
	}
	return PacketHeader{Token: c.PeerToken, Tokened: c.Version != V06 || c.PeerToken != 0}
}

// payload returns the maximum number of bytes of chunks in a packet of at most size bytes.
// The game's buffers hold 1,390 bytes in 0.6 and 1,391 in 0.7. DDNet's hold 1,397, four of
// which are the token.
func (c Config) payload(size int) int {
	room := 1391
	switch {
	case c.DDNet:
		room = 1393
	case c.Version == V06:
		room = 1390
	}
	return min(room, min(size, c.MaxPacket)-c.header().size(c.Version)-c.trailer())
}

// trailer returns the number of bytes that follow the chunks in a packet.
func (c Config) trailer() int {
	if c.DDNet {
		return tokenBytes
	}
	return 0
}

// reserve returns how many bytes the game reserves for a chunk's header (NET_MAX_CHUNKHEADERSIZE).
// We reserve as many, so that our packets end where the game's would.
func (c Config) reserve() int {
	if c.Version == V06 && !c.DDNet {
		return 5
	}
	return 3
}

// maxChunk returns the maximum data size of a chunk.
func (c Config) maxChunk() int {
	return min(c.Version.maxSize(), c.payload(c.MaxPacket)-c.reserve()-1)
}
