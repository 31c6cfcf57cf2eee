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
