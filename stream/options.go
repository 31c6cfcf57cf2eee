package stream

import (
	"errors"
	"fmt"

	"github.com/quivernet/quiver/bunch"
)

// Option adjusts one transfer where it starts.
type Option func(*options)

type options struct {
	weight int
	key    string
	name   string
	via    Backend
	lanes  int
	hash   Algorithm
	part   int // of the array: most bytes of elements in an RPC; 0 = the backend's
}

// MaxWeight is the largest weight of a transfer.
const MaxWeight = 1000

// Weight is the transfer's share of the connection beside its other transfers: 1, the default, to MaxWeight.
func Weight(n int) Option { return func(o *options) { o.weight = n } }

// Key names the content, at most 128 bytes: the text of its [Digest], best. Where the receiver has a Store, a transfer
// that was interrupted goes on where it stopped when it starts again with the same key, and content that is there
// already is not sent again, nor compared with the sender's: what else has the same key, be it a blob or an array, is taken for the same.
func Key(key string) Option { return func(o *options) { o.key = key } }

// Name is a word about the transfer to the receiving application, at most 255 bytes: a file's name, perhaps. It comes
// from outside there.
func Name(name string) Option { return func(o *options) { o.name = name } }

// Via chooses the backend for this transfer.
func Via(b Backend) Option { return func(o *options) { o.via = b } }

// Lanes is how many lanes the transfer may use, 1 to 32, instead of what its Window says. Slices use none.
func Lanes(n int) Option { return func(o *options) { o.lanes = n } }

// Hash chooses how the transfer's digest is made, instead of what Config says: as that of a file which is known already,
// so that the receiver's [Content] has the same digest. With [NoDigest] none is made.
func Hash(a Algorithm) Option { return func(o *options) { o.hash = a } }

// resolve applies opts to what the installation says.
func resolve(config *Config, opts []Option) (options, error) {
	o := options{weight: 1, via: config.backend(), hash: config.Hash}
	for _, opt := range opts {
		opt(&o)
	}
	switch {
	case o.weight < 1 || o.weight > MaxWeight:
		return o, fmt.Errorf("stream: Weight(%d) is not 1 to %d", o.weight, MaxWeight)
	case len(o.key) > maxKeyBytes:
		return o, fmt.Errorf("stream: Key of %d bytes, at most %d", len(o.key), maxKeyBytes)
	case len(o.name) > maxNameBytes:
		return o, fmt.Errorf("stream: Name of %d bytes, at most %d", len(o.name), maxNameBytes)
	case o.via == nil:
		return o, errors.New("stream: Via(nil) names no backend: give it a Window or Slices, or leave it out for stream.Config.Backend")
	case o.hash == NoDigest && o.key != "":
		return o, errors.New("stream: Key and Hash(NoDigest): what is kept under a key needs its digest; leave one of them out")
	case o.hash != 0 && !o.hash.ofTransfers():
		return o, fmt.Errorf("stream: Hash(%v) is unknown", o.hash)
	case o.lanes < 0 || o.lanes > maxLanes:
		return o, fmt.Errorf("stream: Lanes(%d) is not 1 to %d", o.lanes, maxLanes)
	}
	if w, ok := o.via.(Window); ok && o.lanes != 0 {
		w.Lanes = o.lanes
		o.via = w
	}
	return o, o.via.check()
}

// partSize is the payload of a full part.
func (o *options) partSize() int {
	if o.part > 0 {
		return o.part
	}
	if _, ok := o.via.(Slices); ok {
		return slicePartBytes
	}
	return partBytes
}

// checkEntries fails when an array's own MaxBytesPerRPC lets RPCs overflow lanes of so many entries, and when the share of them is less than
// one, for no part would ever leave.
func (o *options) checkEntries(slots int) error {
	w, ok := o.via.(Window)
	if !ok {
		return nil
	}
	entries := 1
	if o.part > 0 {
		entries = bunch.Entries(o.part + rpcOverhead)
	}
	return Gate{Share: w.Share}.Check(slots, entries)
}
