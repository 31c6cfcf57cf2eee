package codec

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// careless appends itself in its own way: to what it was given, or not.
type careless struct {
	how  string
	kept []byte
}

func (c *careless) AppendBinary(b []byte) ([]byte, error) {
	switch c.how {
	case "cuts":
		return append(b[:0], 7), nil
	case "replaces":
		return append([]byte{7}, b...), nil
	case "returns its own":
		return c.kept, nil
	case "nothing":
		return nil, nil
	}
	return append(b, 7), nil
}

func (c *careless) UnmarshalBinary(b []byte) error {
	c.kept = append([]byte(nil), b...)
	return nil
}

// TestAppendBinaryReachesNothingElse: whatever slice a value returns is its encoding.
// The bytes before it stay, and the buffer does not become the value's memory.
func TestAppendBinaryReachesNothingElse(t *testing.T) {
	c, err := Of(reflect.TypeFor[careless]())
	require.NoError(t, err)
	for how, want := range map[string][]byte{
		"appends": {7}, "cuts": {7}, "replaces": {7}, "returns its own": {7, 8}, "nothing": {},
	} {
		v := &careless{how, []byte{7, 8}}
		e := NewEncoder()
		e.Buf = append(e.Buf, "before"...)
		require.NoError(t, e.Encode(c, v), how)
		require.Equal(t, append([]byte("before"), want...), e.Buf, how)
		clear(e.Buf)
		require.Equal(t, []byte{7, 8}, v.kept, how)
		e.Release()
	}
}
