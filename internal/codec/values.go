package codec

import (
	"fmt"
	"reflect"
)

// AppendValue appends one value to b as an argument of that type travels: v is a pointer to it, or the value itself.
// Values that write themselves, and Raw, have their length before them, so that values can stand in a row.
// On an error b is returned as it was.
func AppendValue(b []byte, v any) ([]byte, error) {
	c, p, err := codecOf(v)
	if err != nil {
		return b, fmt.Errorf("codec: AppendValue: %w", err)
	}
	if b, err = c.Append(b, p); err != nil {
		return b, fmt.Errorf("codec: AppendValue(%T): %w", v, err)
	}
	return b, nil
}

// DecodeValue reads one value that [AppendValue] wrote at the start of b into the one to which v points, and returns the bytes behind
// it. It allocates nothing for lengths that b claims before their bytes are there. A Raw aliases b.
func DecodeValue(b []byte, v any) (rest []byte, err error) {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer || reflect.ValueOf(v).IsNil() {
		return nil, fmt.Errorf("codec: DecodeValue(%T): must be a pointer to a value", v)
	}
	c, err := Of(t.Elem())
	if err != nil {
		return nil, fmt.Errorf("codec: DecodeValue: %w", err)
	}
	reflect.ValueOf(v).Elem().SetZero()
	if rest, _, err = c.Next(b, v); err != nil {
		return nil, fmt.Errorf("codec: DecodeValue(%T): %w", v, err)
	}
	return rest, nil
}

// codecOf returns the codec of v and a pointer to it.
func codecOf(v any) (*Codec, any, error) {
	t := reflect.TypeOf(v)
	if t == nil {
		return nil, nil, fmt.Errorf("nil has no type")
	}
	if t.Kind() == reflect.Pointer {
		if reflect.ValueOf(v).IsNil() {
			return nil, nil, fmt.Errorf("%v is nil", t)
		}
		c, err := Of(t.Elem())
		return c, v, err
	}
	c, err := Of(t)
	if err != nil {
		return nil, nil, err
	}
	p := reflect.New(t)
	p.Elem().Set(reflect.ValueOf(v))
	return c, p.Interface(), nil
}
