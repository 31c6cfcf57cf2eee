package vital

import (
	"cmp"
	"fmt"
	"time"
)

// Defaults and limits, as in the game if it has them. A timer fires once its
// time is exceeded, not when it is reached.
const (
	maxOutstanding = 511 // to a receiver, sequences up to 511 ahead are new, and all others old

	defaultStore     = 32 << 10
	defaultQueue     = 32 << 10
	defaultReceive   = 64 << 10
	defaultTimeout   = 10 * time.Second
	defaultKeepAlive = time.Second
	defaultFlush     = 500 * time.Millisecond
	defaultResend    = time.Second
	defaultAck       = 100 * time.Millisecond // not the game's: its peers always have something to send

	// minAsk is the least time between two requests for a resend, and between
	// two answers; DDNet's limit.
	minAsk = 100 * time.Millisecond
	// askAgain is after how many intervals (see Conn.interval) a request
	// without effect is repeated.
	askAgain = 3

	// longest limits times, so that no sum of them overflows: 146 years.
	longest = 1 << 62

	chunkShare  = 16 // there may be one chunk for each 16 bytes of a limit, however small the chunks are
	firstPlaces = 8  // initial capacity of a list, in chunks
	maxReason   = 256

	unknownToken = 0xffffffff // DDNet's, before a peer knows the right one
)

// Config holds the settings of one end of a connection. A field that is zero takes its default.
type Config struct {
	Version Version

	// Token must be in every received packet, and PeerToken is in every sent
	// one. Packets with another token are dropped. In 0.6 both are zero for
	// peers without tokens (0.6.4), or neither is (0.6.5, DDNet).
	Token, PeerToken uint32
	// DDNet makes the tokens of 0.6 DDNet's security token: the same for both
	// ends, after the payload of each packet.
	DDNet bool
	// Plain sends packets uncompressed. Otherwise they are compressed if that
	// makes them shorter. Received packets may be compressed in either case.
	Plain bool

	// MaxPacket is the size of the largest packet in bytes, 64 to 1,400. 0 = 1,400.
	MaxPacket int
	// StoreBytes is how much data of vital chunks may be unacknowledged,
	// besides the limit of 511 chunks. 0 = 32 KiB.
	StoreBytes int
	// QueueBytes is how much data of other chunks may be queued. 0 = 32 KiB.
	QueueBytes int
	// ReceiveBytes is how much data may wait for Next. Vital chunks for which
	// there is no room are not acknowledged, so that the peer sends them again.
	// Others are dropped if half of it is in use. 0 = 64 KiB.
	ReceiveBytes int

	// Timeout is after how long a connection ends on which nothing is received,
	// or no vital chunk acknowledged while some are outstanding. 0 = 10 s.
	Timeout time.Duration
	// KeepAlive is after how much time without a packet an empty one is sent. 0 = 1 s.
	KeepAlive time.Duration
	// FlushAfter is how long after the last packet chunks are sent without a Flush. 0 = 500 ms.
	FlushAfter time.Duration
	// ResendAfter is after how long an unacknowledged vital chunk is sent again
	// without a request. 0 = 1 s.
	ResendAfter time.Duration
	// AckAfter is how long the acknowledgement of a vital chunk waits for
	// another packet. 0 = 100 ms; negative = until there is one, as in the game.
	AckAfter time.Duration
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	switch {
	case c.Version > V07:
		return fmt.Errorf("vital: Config.Version is %v", c.Version)
	case c.Version == V06 && (c.Token == 0) != (c.PeerToken == 0):
		return fmt.Errorf("vital: Config.Token is %08x and PeerToken %08x; 0.6 has both or none", c.Token, c.PeerToken)
	case c.DDNet && (c.Version != V06 || c.Token != c.PeerToken || c.Token == 0 || c.Token == unknownToken):
		return fmt.Errorf("vital: Config.DDNet in %v with Token %08x and PeerToken %08x; it is for 0.6, both are the same, and 0 and ffffffff stand for none", c.Version, c.Token, c.PeerToken)
	case c.MaxPacket != 0 && (c.MaxPacket < 64 || c.MaxPacket > maxPacket):
		return fmt.Errorf("vital: Config.MaxPacket is %d; 64 to %d are possible", c.MaxPacket, maxPacket)
	case min(c.Timeout, c.KeepAlive, c.FlushAfter, c.ResendAfter) < 0:
		return fmt.Errorf("vital: a negative time in Config: Timeout %v, KeepAlive %v, FlushAfter %v, ResendAfter %v", c.Timeout, c.KeepAlive, c.FlushAfter, c.ResendAfter)
	}
	c = c.effective()
	least := 2 * c.maxChunk()
	for _, f := range []struct {
		name  string
		bytes int
	}{{"StoreBytes", c.StoreBytes}, {"QueueBytes", c.QueueBytes}, {"ReceiveBytes", c.ReceiveBytes}} {
		if f.bytes < least || f.bytes > 1<<30 {
			return fmt.Errorf("vital: Config.%s is %d; %d, two of the largest chunks, to 1 GiB are possible", f.name, f.bytes, least)
		}
	}
	return nil
}

// effective returns c with its defaults.
func (c Config) effective() Config {
	c.MaxPacket = cmp.Or(c.MaxPacket, maxPacket)
	c.StoreBytes = cmp.Or(c.StoreBytes, defaultStore)
	c.QueueBytes = cmp.Or(c.QueueBytes, defaultQueue)
	c.ReceiveBytes = cmp.Or(c.ReceiveBytes, defaultReceive)
	c.Timeout = min(cmp.Or(c.Timeout, defaultTimeout), longest)
	c.KeepAlive = min(cmp.Or(c.KeepAlive, defaultKeepAlive), longest)
	c.FlushAfter = min(cmp.Or(c.FlushAfter, defaultFlush), longest)
	c.ResendAfter = min(cmp.Or(c.ResendAfter, defaultResend), longest)
	c.AckAfter = cmp.Or(c.AckAfter, defaultAck)
	return c
}

// header returns the constant part of the next packet's header.
func (c Config) header() PacketHeader {
	if c.DDNet {
		return PacketHeader{}
	}
	return PacketHeader{Token: c.PeerToken, Tokened: c.Version != V06 || c.PeerToken != 0}
}

// payload returns how many bytes of chunks may follow the header of a packet of
// at most size bytes. The game's buffers hold 1,390 bytes in 0.6 and 1,391 in
// 0.7; DDNet's hold 1,397, four of which are the token.
func (c Config) payload(size int) int {
	room := 1391
	switch {
	case c.DDNet:
		room = 1393
	case c.Version == V06:
		room = 1390
	}
	return min(room, min(size, c.MaxPacket)-c.header().size(c.Version)-c.behind())
}

// behind returns how many bytes follow the chunks.
func (c Config) behind() int {
	if c.DDNet {
		return tokenBytes
	}
	return 0
}

// reserve returns how much room the game reserves for a chunk's header
// (NET_MAX_CHUNKHEADERSIZE), so that packets end where the game's do.
func (c Config) reserve() int {
	if c.Version == V06 && !c.DDNet {
		return 5
	}
	return 3
}

// maxChunk returns the size of the largest possible chunk's data.
func (c Config) maxChunk() int {
	return min(c.Version.maxSize(), c.payload(c.MaxPacket)-c.reserve()-1)
}
