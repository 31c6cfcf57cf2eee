package stream

import (
	"cmp"
	"errors"
	"fmt"
)

// An Option adjusts one transfer when it is started.
type Option func(*options)

// options holds the settings of a transfer.
type options struct {
	// Each field is set by the Option of the same name.
	weight int
	key    string
	name   string
	via    Backend
	lanes  int       // 0 for as many as via allows
	hash   Algorithm // 0 to let sender.hash choose it
	rate   int       // 0 for no limit

	// Set by Array.Start.
	part    int // MaxBytesPerRPC, or 0 for the backend's part size
	element int // maximum size of an encoded element; 0 for a blob

	window *Window // set by resolve from via and lanes; nil if parts are sent as slices
}

// MaxWeight is the maximum weight of a transfer.
const MaxWeight = 1000

// Weight sets the transfer's share of the connection relative to the connection's other
// transfers. n is from 1, the default, to MaxWeight.
//
// The peer accepts a limited number of transfers at once (its [Config].MaxTransfers), and all
// others wait. Of those, the heaviest begins first or, if several have the same weight, the oldest.
// So that even the lightest transfer begins eventually, at most seven heavier ones may overtake the
// one that has waited longest.
//
// [Transfer.SetWeight] changes the weight, even while the transfer is waiting.
func Weight(n int) Option { return func(o *options) { o.weight = n } }

// Key names the content, so that the receiver's Store can keep it and an interrupted transfer can
// be resumed. A key has at most 128 bytes. Never use the same key for different content. The best
// key is the text of the content's [Digest].
//
// When an interrupted transfer is started again with the same key, it continues where it stopped.
// Content that the receiver has stored is not sent again.
//
// If a blob's key is the text of a digest, as returned by [Digest.String], the receiver gets
// content with that digest or an error. If the wrong content arrives, the transfer fails with
// ErrDigest. If the Store has the wrong content under the key, the transfer either fails as well or
// sends the content again. The receiver hashes the content twice if [Hash] sets another algorithm.
//
// With any other key, and for all arrays, the receiver can't verify that the content it has stored
// under the key is the sender's. If a sender uses the key for different content, it is told that
// everything has arrived, although the receiver's application gets the stored content.
//
// Both ends refuse a key that looks like the text of a digest but isn't valid, because it is in
// upper case, has the wrong length, or begins with an unknown algorithm such as md5. A key that
// consists of hex digits, without an algorithm in front, is valid but is not verified.
func Key(key string) Option { return func(o *options) { o.key = key } }

// Name sets a text, such as a file name, that the receiving application gets with the transfer. It
// has at most 255 bytes. The receiver must not trust it.
func Name(name string) Option { return func(o *options) { o.name = name } }

// Via chooses the backend for this transfer, in place of [Config].Backend.
func Via(b Backend) Option { return func(o *options) { o.via = b } }

// Lanes sets the maximum number of lanes that the transfer may use, in place of [Window].Lanes. n
// is from 1 to 32, or 0, the default, to use Window.Lanes. It has no effect with [Slices].
func Lanes(n int) Option { return func(o *options) { o.lanes = n } }

// Hash chooses the digest algorithm, in place of [Config].Hash, which 0 keeps. If the game already
// knows a digest of the content, choose its algorithm, so that the receiver's [Content] has the
// same digest. With [NoDigest], the content is neither hashed nor verified.
func Hash(a Algorithm) Option { return func(o *options) { o.hash = a } }

// Rate limits how fast a blob's source is read, in bytes per second. 0, the default, means no
// limit. Rate is for one transfer, whereas rpc.Config.Rate limits everything that a connection
// sends. Arrays don't support it: their Start and Send return an error.
//
// Each read is for at most 50 ms of the rate, so that a canceled transfer soon stops reading. After
// a delay, because the source was slow or the computer busy, the transfer exceeds the rate to catch
// up. It makes up for at most 250 ms, so that a long delay isn't followed by a long burst. If a
// transfer is resumed, content that the receiver already has doesn't count.
func Rate(bytes int) Option { return func(o *options) { o.rate = bytes } }

// resolve returns the options of a transfer, with config's values for those that opts doesn't set.
func resolve(config *Config, opts []Option) (options, error) {
	o := options{weight: 1, via: config.backend()}
	for i, opt := range opts {
		if opt == nil {
			return o, fmt.Errorf("stream: option %d is nil", i+1)
		}
		opt(&o)
	}
	o.hash = cmp.Or(o.hash, config.Hash)

	badKey := checkKey(o.key)
	switch {
	case o.weight < 1 || o.weight > MaxWeight:
		return o, fmt.Errorf("stream: Weight is %d; it must be from 1 to %d", o.weight, MaxWeight)
	case len(o.key) > maxKeyBytes:
		return o, fmt.Errorf("stream: Key has %d bytes; the limit is %d", len(o.key), maxKeyBytes)
	case badKey != nil:
		return o, badKey
	case len(o.name) > maxNameBytes:
		return o, fmt.Errorf("stream: Name has %d bytes; the limit is %d", len(o.name), maxNameBytes)
	case isNil(o.via):
		return o, errors.New("stream: Via has a nil backend: use a Window or Slices, or omit Via to use stream.Config.Backend")
	case o.hash == NoDigest && o.key != "":
		return o, errors.New("stream: Key cannot be combined with Hash(NoDigest), because stored content needs a digest")
	case o.hash != 0 && !o.hash.isKnown():
		return o, fmt.Errorf("stream: Hash is unknown %v", o.hash)
	case o.rate < 0:
		return o, fmt.Errorf("stream: Rate is %d; it must not be negative", o.rate)
	case o.lanes < 0 || o.lanes > maxLanes:
		return o, fmt.Errorf("stream: Lanes is %d; it must be from 0 to %d", o.lanes, maxLanes)
	}

	o.window = o.via.window()
	if o.window == nil {
		return o, nil
	}
	o.window.Lanes = cmp.Or(o.lanes, o.window.Lanes)
	return o, o.window.check()
}

// partSize returns the payload of a full part, given the connection's limits (see extend.Limits).
func (o *options) partSize(entries, maxBunch int) int {
	if o.window == nil {
		return cmp.Or(o.part, slicePartBytes)
	}
	return min(cmp.Or(o.part, partBytes), o.window.maxPart(entries, maxBunch))
}

// checkLimits returns an error if the connection's limits are too small for the transfer: if the
// peer has a smaller MaxBunch than Install allows, or if an element might not fit into an RPC. All
// else fits, because partSize makes the parts small enough.
func (o *options) checkLimits(entries, maxBunch int) error {
	if maxBunch < minMaxBunch {
		return fmt.Errorf("peer limits messages to %d bytes (MaxBunch); transfers need %d", maxBunch, minMaxBunch)
	}
	if o.window == nil {
		return nil
	}
	if limit := o.window.maxPart(entries, maxBunch); o.element > limit {
		return fmt.Errorf("%w: element may take up to %d bytes; the limit is %d with a ReliableBuffer of %d entries, "+
			"a MaxBunch of %d bytes and a Window.Share of %v: reduce the bounds of its fields or use Slices",
			ErrTooLarge, o.element, limit, entries, maxBunch, cmp.Or(o.window.Share, defaultShare))
	}
	return nil
}
