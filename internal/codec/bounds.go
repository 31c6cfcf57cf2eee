package codec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// ErrTooLong means that part of an argument is longer than its quiver tag or its type's
// MaxEncodedSize allows. The error that wraps it names the part, its size and the bound.
var ErrTooLong = errors.New("rpc: value too long")

// unbounded is the bound of a type or field without one.
const unbounded = -1

// bounds is a field's quiver tag. schemaBuilder.of uses its levels one after another as it descends
// into the field's type.
//
//	Name  string              `quiver:"max=32"`                // bytes
//	Tags  []string            `quiver:"max=100,each=20"`       // elements, then bytes of each
//	Index map[string][]string `quiver:"max=8,key=16,each=4,each=20"`
//
// "max" bounds the field itself, every "each" the next level inside it, and "key" the keys of the
// map whose bound comes before it. Arrays and pointers don't count as levels. A nil *bounds has
// no levels.
type bounds struct {
	levels    []level
	depth     int            // levels already used
	enclosing []reflect.Type // arrays and pointers passed since the last level
}

// A level is one level of a tag.
type level struct {
	max  int     // bytes or elements
	keys *bounds // bounds of a map's keys; nil if there are none
}

// stateOnly holds the tag items that only states and lists support. They get their own error,
// because users who turn a quantized state into an argument tend to leave them in.
var stateOnly = []string{"quant", "range", "unit", "owner", "skipowner", "initial", "if"}

// boundsOf parses a field's tag. It returns nil if there is none.
func boundsOf(f reflect.StructField) (*bounds, error) {
	tag, tagged := f.Tag.Lookup("quiver")
	if !tagged {
		return nil, nil
	}
	b := &bounds{}
	for _, item := range strings.Split(tag, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(item), "=")
		if slices.Contains(stateOnly, name) {
			return nil, fmt.Errorf("%q is only for replicated states and lists: "+
				"to quantize an argument, implement AppendBinary and UnmarshalBinary", item)
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q needs a number from 0 to 2147483647", item)
		}
		if err := b.add(name, int(n)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// add adds one item of the tag.
func (b *bounds) add(name string, n int) error {
	last := len(b.levels) - 1
	switch {
	case name == "max" && last < 0, name == "each" && last >= 0:
		b.levels = append(b.levels, level{max: n})
	case name == "key" && last >= 0 && b.levels[last].keys == nil:
		b.levels[last].keys = &bounds{levels: []level{{max: n}}}
	case name == "max":
		return fmt.Errorf("max must come first and only once: use each for the levels inside the field")
	case name == "key" && last >= 0:
		return fmt.Errorf("key must come once, right after the bound of its map")
	case name == "each" || name == "key":
		return fmt.Errorf("%s must come after max", name)
	default:
		return fmt.Errorf("unknown item %q: use max, each or key", name)
	}
	return nil
}

// hasMore reports whether the tag has unused levels.
func (b *bounds) hasMore() bool { return b != nil && b.depth < len(b.levels) }

// next returns the bound of the next level, or unbounded if none is left.
func (b *bounds) next() int {
	if !b.hasMore() {
		return unbounded
	}
	b.depth++
	b.enclosing = nil
	return b.levels[b.depth-1].max
}

// enter records that we descend into t, an array or a pointer. It returns false if we have already
// entered t since the last level, which means that t contains itself.
func (b *bounds) enter(t reflect.Type) bool {
	if !b.hasMore() {
		return true
	}
	before := b.enclosing
	b.enclosing = append(b.enclosing, t)
	return !slices.Contains(before, t)
}

// keys returns the bounds of a map's keys. Call it before next, which moves on to the map's
// elements.
func (b *bounds) keys() *bounds {
	if !b.hasMore() {
		return nil
	}
	return b.levels[b.depth].keys
}

// allUsed reports whether every level was used.
func (b *bounds) allUsed() bool {
	if b == nil {
		return true
	}
	for _, l := range b.levels {
		if !l.keys.allUsed() {
			return false
		}
	}
	return !b.hasMore()
}

// checkBound returns an error if n exceeds bound. of says what n counts, such as "bytes".
func checkBound(n, bound int, of string) error {
	if bound == unbounded || n <= bound {
		return nil
	}
	return fmt.Errorf("has %d %s; the limit is %d (quiver tag or MaxEncodedSize): %w", n, of, bound, ErrTooLong)
}
