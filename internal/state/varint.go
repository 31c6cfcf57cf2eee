package state

import (
	"encoding/binary"
	"errors"
)

var (
	errVarint   = errors.New("varint is truncated or overflows 64 bits")
	errOverlong = errors.New("varint is longer than necessary")
)

// readUvarint reads a varint and requires its shortest form.
func readUvarint(b []byte) (n uint64, rest []byte, err error) {
	n, k := binary.Uvarint(b)
	if k <= 0 {
		return 0, nil, errVarint
	}
	if k > 1 && b[k-1] == 0 {
		return 0, nil, errOverlong
	}
	return n, b[k:], nil
}

// uvarintSize returns the number of bytes of the varint of n.
func uvarintSize(n uint64) int { return len(binary.AppendUvarint(nil, n)) }

// unzigzag maps 0, 1, 2, 3 and so on to 0, -1, 1, -2 and so on.
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }
