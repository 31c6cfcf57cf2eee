package rpc

import (
	"bytes"
	"fmt"
	"reflect"

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

// AppendValue appends one value to b as an argument of that type travels: v is a pointer to it, or the value itself.
// Values that write themselves, and Raw, have their length before them, so that values can stand in a row.
// On an error b is returned as it was.
func AppendValue(b []byte, v any) ([]byte, error) {
	c, p, err := codecOf(v)
	if err != nil {
		return b, fmt.Errorf("rpc: AppendValue: %w", err)
	}
	if b, err = c.Append(b, p); err != nil {
		return b, fmt.Errorf("rpc: AppendValue(%T): %w", v, err)
	}
	return b, nil
}

// DecodeValue reads one value that [AppendValue] wrote at the start of b into the one that v points to, and returns
// what follows it. Nothing that b claims is believed before its bytes are there. A Raw aliases b.
func DecodeValue(b []byte, v any) (rest []byte, err error) {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer || reflect.ValueOf(v).IsNil() {
		return nil, fmt.Errorf("rpc: DecodeValue(%T): must be a pointer to a value", v)
	}
	c, err := codec.Of(t.Elem())
	if err != nil {
		return nil, fmt.Errorf("rpc: DecodeValue: %w", err)
	}
	reflect.ValueOf(v).Elem().SetZero()
	if rest, _, err = c.Next(b, v); err != nil {
		return nil, fmt.Errorf("rpc: DecodeValue(%T): %w", v, err)
	}
	return rest, nil
}

// codecOf returns the codec of v and a pointer to it.
func codecOf(v any) (*codec.Codec, any, error) {
	t := reflect.TypeOf(v)
	if t == nil {
		return nil, nil, fmt.Errorf("nil has no type")
	}
	if t.Kind() == reflect.Pointer {
		if reflect.ValueOf(v).IsNil() {
			return nil, nil, fmt.Errorf("%v is nil", t)
		}
		c, err := codec.Of(t.Elem())
		return c, v, err
	}
	c, err := codec.Of(t)
	if err != nil {
		return nil, nil, err
	}
	p := reflect.New(t)
	p.Elem().Set(reflect.ValueOf(v))
	return c, p.Interface(), nil
}
