package state

import "fmt"

// checkBound returns an error if n exceeds a tag's bound. of says what n counts: bytes or elements.
func checkBound(n, bound int, of string) error {
	if n <= bound {
		return nil
	}
	return fmt.Errorf("has %d %s; the limit is %d (quiver tag)", n, of, bound)
}

// readCount reads a number of bytes or elements, as of says, and checks it against a tag's bound.
func readCount(b []byte, bound int, of string) (n int, rest []byte, err error) {
	u, rest, err := readUvarint(b)
	if err != nil {
		return 0, nil, err
	}
	n = int(min(u, 1<<31-1))
	return n, rest, checkBound(n, bound, of)
}
