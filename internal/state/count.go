package state

import "fmt"

// within returns an error if n exceeds a tag's bound. of names what n counts: bytes or
// elements.
func within(n, bound int, of string) error {
	if n <= bound {
		return nil
	}
	return fmt.Errorf("it holds %d %s, its bound is %d (quiver tag)", n, of, bound)
}

// readCount reads a number of bytes or elements and checks it against a tag's bound. of names
// what it counts.
func readCount(b []byte, bound int, of string) (n int, rest []byte, err error) {
	u, rest, err := readUvarint(b)
	if err != nil {
		return 0, nil, err
	}
	n = int(min(u, 1<<31-1))
	return n, rest, within(n, bound, of)
}
