package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"
)

var errUTF8 = errors.New("string is not UTF-8")

// A text is the form of a string of at most bound bytes.
type text struct {
	noReferences
	bound int
}

func (f text) append(b []byte, v reflect.Value) ([]byte, error) {
	s := v.String()
	if err := checkBound(len(s), f.bound, "bytes"); err != nil {
		return b, err
	}
	if !utf8.ValidString(s) {
		return b, errUTF8
	}
	return append(binary.AppendUvarint(b, uint64(len(s))), s...), nil
}

func (f text) read(b []byte, v reflect.Value) ([]byte, error) {
	n, rest, err := readCount(b, f.bound, "bytes")
	if err != nil {
		return nil, err
	}
	s, rest, err := take(rest, n)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(s) {
		return nil, errUTF8
	}
	if v.IsValid() {
		v.SetString(string(s))
	}
	return rest, nil
}

func (text) minSize() int { return 1 }
func (f text) maxSize() int {
	return min(uvarintSize(uint64(f.bound))+min(f.bound, maxFormSize), maxFormSize)
}
func (f text) String() string { return fmt.Sprintf("string, max %d", f.bound) }
