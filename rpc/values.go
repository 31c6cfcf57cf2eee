package rpc

import (
	"bytes"

	"github.com/quivernet/quiver/internal/codec"
)

// Raw is an argument that is not encoded: the bytes travel as they are. A handler may use them until it returns;
// what it keeps it must copy.
type Raw = codec.Raw

// None is the argument of a call that has none.
type None = codec.None

// ErrTooLong: a part of an argument is longer than its quiver tag, or MaxEncodedSize of its type, allows. The error that
// wraps it names the part, its size and the bound.
var ErrTooLong = codec.ErrTooLong

// keep returns the argument at p as a value that outlives the call.
func keep[A any](p *A) any {
	if raw, ok := any(p).(*Raw); ok {
		return Raw(bytes.Clone(*raw))
	}
	return *p
}
