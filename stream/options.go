package stream

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/quivernet/quiver/bunch"
)

// Option adjusts one transfer where it starts.
type Option func(*options)

// options is what the options of a transfer say: each field is the argument of the option of its name.
type options struct {
	weight int
	key    string
	name   string
	via    Backend
	lanes  int       // 0 = what via says
	hash   Algorithm // 0 = sender.hash chooses
	rate   int
	part   int // of the array: most bytes of elements in an RPC; 0 = the backend's

	window *Window // what via and lanes say, set by resolve; nil: parts travel as slices
}

// MaxWeight is the largest weight of a transfer.
const MaxWeight = 1000

// Weight sets the transfer's share of the connection beside its other transfers: 1, the default, to MaxWeight. Of those that wait, because
// the peer takes no more at once (its [Config].MaxTransfers), the heaviest begins first, and of equal ones the first. None waits for ever:
// when seven heavier ones have begun before the one that has waited longest, it takes the next place. [Transfer.SetWeight] changes the weight,
// also of one that waits.
func Weight(n int) Option { return func(o *options) { o.weight = n } }

// Key names the content, which must never change under its key, in at most 128 bytes; the text of its [Digest] is best. If the receiver has
// a Store, a transfer that was interrupted and starts again with the same key goes on where it stopped, and content that is stored already is
// not sent again.
// What a blob's receiver gets under a key that is the text of a digest, as [Digest.String] makes it, has that digest: other content that comes
// or is found in the store fails with ErrDigest, or is fetched anew. The content is hashed twice if [Hash] is another algorithm. What the
// receiver has stored under a key is taken for the sender's and not compared with it, so a sender that gives its content another content's
// key is told that all has arrived; under keys that are no digests, that goes for blobs and arrays alike. A key that is nearly a digest's
// text, in upper case, of another length or by an algorithm that is unknown, such as md5, is refused at both ends; hex digits without an
// algorithm's name before them are a plain name.
func Key(key string) Option { return func(o *options) { o.key = key } }

// Name tells the receiving application about the transfer, in at most 255 bytes: a file's name, perhaps. There it is a text
// from outside.
func Name(name string) Option { return func(o *options) { o.name = name } }

// Via chooses the backend for this transfer.
func Via(b Backend) Option { return func(o *options) { o.via = b } }

// Lanes sets the most lanes that the transfer may use, 1 to 32, and takes precedence over its Window; 0, the default, leaves it to
// that. Slices use none.
func Lanes(n int) Option { return func(o *options) { o.lanes = n } }

// Hash chooses the algorithm of the transfer's digest, instead of Config's: the one of a digest that the game knows already,
// so that the receiver's [Content] has the same. With [NoDigest] none is made.
func Hash(a Algorithm) Option { return func(o *options) { o.hash = a } }

// Rate limits how fast a blob's source is read, in bytes a second, but for what the receiver of a resumed transfer has. The bytes of a
// twentieth of a second are read at once, and what a slow source or a busy machine has missed is made good, up to a quarter of a second. 0,
// the default, is no limit. Rate limits one transfer, rpc.Config.Rate all that a connection sends. An array's Send refuses it.
func Rate(bytes int) Option { return func(o *options) { o.rate = bytes } }

// resolve returns the options of a transfer: opts, and the Config where they say nothing.
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
		return o, fmt.Errorf("stream: Weight(%d) is not 1 to %d", o.weight, MaxWeight)
	case len(o.key) > maxKeyBytes:
		return o, fmt.Errorf("stream: Key of %d bytes, at most %d", len(o.key), maxKeyBytes)
	case badKey != nil:
		return o, badKey
	case len(o.name) > maxNameBytes:
		return o, fmt.Errorf("stream: Name of %d bytes, at most %d", len(o.name), maxNameBytes)
	case isNil(o.via):
		return o, errors.New("stream: Via(nil) names no backend: give it a Window or Slices, or leave it out for stream.Config.Backend")
	case o.hash == NoDigest && o.key != "":
		return o, errors.New("stream: Key and Hash(NoDigest): what is kept under a key needs its digest; leave one of them out")
	case o.hash != 0 && !o.hash.ofTransfers():
		return o, fmt.Errorf("stream: Hash(%v) is unknown", o.hash)
	case o.rate < 0:
		return o, fmt.Errorf("stream: Rate(%d) is negative", o.rate)
	case o.lanes < 0 || o.lanes > maxLanes:
		return o, fmt.Errorf("stream: Lanes(%d) is not 1 to %d", o.lanes, maxLanes)
	}

	if o.window = o.via.window(); o.window == nil {
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

// checkEntries fails when RPCs of an array's own MaxBytesPerRPC could overflow lanes whose buffers have slots entries, or when the share
// of a buffer is less than one entry, so that no part could ever leave.
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
