package stream

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/quivernet/quiver/bunch"
)

// An Option adjusts one transfer when it is started.
type Option func(*options)

// options holds the values of a transfer's options, each in the field named after its Option.
type options struct {
	weight int
	key    string
	name   string
	via    Backend
	lanes  int       // 0 for as many as via allows
	hash   Algorithm // 0 to let sender.hash choose it
	rate   int

	part   int     // an array's MaxBytesPerRPC, or 0 for the backend's part size
	window *Window // set by resolve from via and lanes; nil if parts are sent as slices
}

// MaxWeight is the maximum weight of a transfer.
const MaxWeight = 1000

// Weight sets the transfer's share of the connection relative to the connection's other
// transfers. n is from 1, the default, to MaxWeight.
//
// Transfers beyond the number that the peer accepts at once (its [Config].MaxTransfers) wait. The
// heaviest begins first or, if several have the same weight, the oldest. But no transfer waits
// forever: once seven heavier transfers have overtaken the one that has waited longest, that
// transfer is next. [Transfer.SetWeight] changes the weight, even while the transfer is waiting.
func Weight(n int) Option { return func(o *options) { o.weight = n } }

// Key names the content, in at most 128 bytes. The content must never change under its key.
// The text of its [Digest] is the best key.
//
// If the receiver has a Store, a transfer that was interrupted and is started again with the
// same key resumes where it stopped. Content that is already stored is not sent again.
//
// If the key of a blob is the text of a digest, as [Digest.String] returns it, the receiver gets
// content with that digest or an error. If other content arrives, the transfer fails with
// ErrDigest. If the store has other content, the transfer also fails, or the content is fetched
// again. The content is hashed twice if [Hash] is another algorithm.
//
// With any other key, and with all arrays, the receiver assumes without a comparison that the
// content it has stored under the key is the sender's. A sender that uses the key of different
// content is therefore told that everything has arrived.
//
// Both ends refuse a key that is nearly the text of a digest: in upper case, of another length,
// or by an unknown algorithm such as md5. Hex digits without the name of an algorithm in front
// are an ordinary key.
func Key(key string) Option { return func(o *options) { o.key = key } }

// Name sets a text of at most 255 bytes that the receiving application gets along with the
// transfer, such as the name of a file. The receiver must not trust it.
func Name(name string) Option { return func(o *options) { o.name = name } }

// Via chooses the backend for this transfer.
func Via(b Backend) Option { return func(o *options) { o.via = b } }

// Lanes sets the maximum number of lanes that the transfer may use, from 1 to 32. Unless it is
// 0, the default, it takes precedence over Window.Lanes. Slices use no lanes.
func Lanes(n int) Option { return func(o *options) { o.lanes = n } }

// Hash chooses the algorithm of the transfer's digest, in place of Config.Hash. If the game
// already knows a digest of the content, choose that digest's algorithm, so that the receiver's
// [Content] has the same digest. With [NoDigest], the content is not hashed.
func Hash(a Algorithm) Option { return func(o *options) { o.hash = a } }

// Rate limits how fast a blob's source is read, in bytes per second. 0, the default, means no
// limit. Rate is for one transfer, whereas rpc.Config.Rate limits everything that a connection
// sends. Arrays don't support it: their Send returns an error.
//
// The source is read in steps of a twentieth of a second. After a delay, because the source was
// slow or the machine busy, the transfer catches up on at most a quarter of a second. If a transfer
// is resumed, content that the receiver already has does not count.
func Rate(bytes int) Option { return func(o *options) { o.rate = bytes } }

// resolve returns the options of a transfer, with config's values for what opts leaves out.
func resolve(config *Config, opts []Option) (options, error) {
	o := options{weight: 1, via: config.backend(), hash: config.Hash}
	for i, opt := range opts {
		if opt == nil {
			return o, fmt.Errorf("stream: option %d is nil", i+1)
		}
		opt(&o)
	}

	badKey := checkKey(o.key)
	switch {
	case o.weight < 1 || o.weight > MaxWeight:
		return o, fmt.Errorf("stream: Weight(%d) is out of range: it must be 1 to %d", o.weight, MaxWeight)
	case len(o.key) > maxKeyBytes:
		return o, fmt.Errorf("stream: Key has %d bytes; the limit is %d", len(o.key), maxKeyBytes)
	case badKey != nil:
		return o, badKey
	case len(o.name) > maxNameBytes:
		return o, fmt.Errorf("stream: Name has %d bytes; the limit is %d", len(o.name), maxNameBytes)
	case isNil(o.via):
		return o, errors.New("stream: Via(nil): use a Window or Slices, or omit Via to use stream.Config.Backend")
	case o.hash == NoDigest && o.key != "":
		return o, errors.New("stream: Key cannot be combined with Hash(NoDigest), because stored content needs a digest")
	case o.hash != 0 && !o.hash.isKnown():
		return o, fmt.Errorf("stream: Hash of unknown %v", o.hash)
	case o.rate < 0:
		return o, fmt.Errorf("stream: Rate(%d) is negative", o.rate)
	case o.lanes < 0 || o.lanes > maxLanes:
		return o, fmt.Errorf("stream: Lanes(%d) is out of range: it must be 0 to %d", o.lanes, maxLanes)
	}

	o.window = o.via.window()
	if o.window == nil {
		return o, nil
	}
	o.window.Lanes = cmp.Or(o.lanes, o.window.Lanes)
	return o, o.window.check()
}

// partSize returns the payload of a full part.
func (o *options) partSize() int {
	if o.part > 0 {
		return o.part
	}
	if o.window == nil {
		return slicePartBytes
	}
	return partBytes
}

// checkEntries returns an error if the transfer can't use lanes whose reliable buffers have slots
// entries, either because an array's RPCs could overflow the buffer, or because the transfer's
// share of the buffer is less than one entry, so that no part could be sent.
func (o *options) checkEntries(slots int) error {
	if o.window == nil {
		return nil
	}
	entries := 1
	if o.part > 0 {
		entries = bunch.Entries(o.part + rpcOverhead)
	}
	return Gate{Share: o.window.Share}.Check(slots, entries)
}
