package state

import "fmt"

// within returns an error if n is above the bound of a tag. of is what n counts: bytes or elements.
func within(n, bound int, of string) error {
	if n <= bound {
		return nil
	}
	return fmt.Errorf("it holds %d %s, its bound is %d (quiver tag)", n, of, bound)
}

// readCount reads a number of bytes or elements (of), and checks it against the bound of a tag.
func readCount(b []byte, bound int, of string) (n int, rest []byte, err error) {
	u, rest, err := readUvarint(b)
	if err != nil {
		return 0, nil, err
	}
	n = int(min(u, 1<<31-1))
	return n, rest, within(n, bound, of)
}
