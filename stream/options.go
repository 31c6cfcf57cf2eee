package stream

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/quivernet/quiver/bunch"
)

// An Option adjusts one transfer when it is started.
type Option func(*options)

// options holds the arguments of a transfer's options: each field that of the option with its name.
type options struct {
	weight int
	key    string
	name   string
	via    Backend
	lanes  int       // 0 = as via says
	hash   Algorithm // 0 = chosen by sender.hash
	rate   int
	part   int // of an array: the most bytes of elements in one RPC; 0 = the backend's part size

	window *Window // what via and lanes say, set by resolve; nil = parts are sent as slices
}

// MaxWeight is the largest weight of a transfer.
const MaxWeight = 1000

// Weight sets the transfer's share of the connection relative to its other transfers: 1,
// the default, to MaxWeight. If transfers wait because the peer accepts no more at once
// (its [Config].MaxTransfers), the heaviest begins first, and the oldest among equals. None
// waits forever: once seven heavier ones have begun before the one that has waited longest,
// that one is next. [Transfer.SetWeight] changes the weight, even of a waiting transfer.
func Weight(n int) Option { return func(o *options) { o.weight = n } }

// Key names the content, in at most 128 bytes. The content must never change
// under its key; the text of its [Digest] is the best key. If the receiver has a
// Store, a transfer that was interrupted and is started again with the same key
// resumes where it stopped, and content that is stored already is not sent again.
//
// If the key of a blob is the text of a digest, as [Digest.String] returns it, the
// receiver gets content with that digest or an error: other content that arrives
// fails with ErrDigest, and other content in the store fails with it too, or is
// fetched again. The content is hashed twice if [Hash] is another algorithm.
//
// What the receiver has stored under a key is taken for the sender's content and not
// compared with it. So a sender that gives its content the key of other content is
// told that everything has arrived. With keys that are not digests this is so for
// blobs and arrays alike. A key that is nearly the text of a digest is refused at
// both ends: one in upper case, of another length, or by an unknown algorithm such
// as md5. Hex digits without the name of an algorithm before them are a plain name.
func Key(key string) Option { return func(o *options) { o.key = key } }

// Name sets a text of at most 255 bytes that the receiving application gets with
// the transfer, such as the name of a file. The receiver must not trust it.
func Name(name string) Option { return func(o *options) { o.name = name } }

// Via chooses the backend for this transfer.
func Via(b Backend) Option { return func(o *options) { o.via = b } }

// Lanes sets the most lanes that the transfer may use, 1 to 32, and takes precedence
// over Window.Lanes. 0, the default, leaves that in force. Slices use no lanes.
func Lanes(n int) Option { return func(o *options) { o.lanes = n } }

// Hash chooses the algorithm of the transfer's digest instead of Config.Hash. If the
// game already knows a digest of the content, choose its algorithm: then the
// receiver's [Content] has the same digest. With [NoDigest] the content is not hashed.
func Hash(a Algorithm) Option { return func(o *options) { o.hash = a } }

// Rate limits how fast a blob's source is read, in bytes a second. Content that the receiver
// of a resumed transfer has already does not count. The bytes of a twentieth of a second are
// read at once; after a slow source or a busy machine, up to a quarter of a second is caught
// up. 0, the default, is no limit. Rate limits one transfer; rpc.Config.Rate limits all that
// a connection sends. Arrays do not support it: their Send returns an error.
func Rate(bytes int) Option { return func(o *options) { o.rate = bytes } }

// resolve returns the options of a transfer: those in opts, and the Config's for the others.
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

// checkEntries returns an error if RPCs of an array's own MaxBytesPerRPC could
// overflow lanes whose buffers have slots entries, or if the share of a buffer
// is less than one entry, so that no part could ever be sent.
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
