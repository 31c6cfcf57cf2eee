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
var ErrTooLong = errors.New("rpc: longer than its bound")

// unbounded is the bound of a type or field without one.
const unbounded = -1

// bounds is a field's quiver tag. schemas.of uses up its levels one by one as it descends into
// the field's type.
//
//	Name  string              `quiver:"max=32"`                // bytes
//	Tags  []string            `quiver:"max=100,each=20"`       // elements, then bytes of each
//	Index map[string][]string `quiver:"max=8,key=16,each=4,each=20"`
//
// "max" bounds the field itself, every "each" the next level inside it, and "key" the keys of the
// map whose bound comes before it. Arrays and pointers don't count as levels. A nil *bounds has
// no levels.
type bounds struct {
	levels []level
	depth  int            // levels already used
	passed []reflect.Type // arrays and pointers passed since the last level
}

// level is one level of a tag.
type level struct {
	max  int     // bytes or elements
	keys *bounds // bounds of a map's keys; nil if there are none
}

// stateOnly holds the tag items that only states and lists support. They get an error of their
// own, because users who turn a quantised state into an argument tend to leave them in.
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
			return nil, fmt.Errorf("%q is for replicated states and lists; "+
				"an argument that quantises has AppendBinary and UnmarshalBinary", item)
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q needs a number from 0 to 2147483647", item)
		}
		if err := b.put(name, int(n)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// put adds one item of the tag.
func (b *bounds) put(name string, n int) error {
	last := len(b.levels) - 1
	switch {
	case name == "max" && last < 0, name == "each" && last >= 0:
		b.levels = append(b.levels, level{max: n})
	case name == "key" && last >= 0 && b.levels[last].keys == nil:
		b.levels[last].keys = &bounds{levels: []level{{max: n}}}
	case name == "max":
		return fmt.Errorf("max stands first and once; what is inside of the field is bounded by each")
	case name == "key" && last >= 0:
		return fmt.Errorf("key stands once behind the bound of its map")
	case name == "each" || name == "key":
		return fmt.Errorf("%s needs a max before it", name)
	default:
		return fmt.Errorf("%q is not max, each or key", name)
	}
	return nil
}

// left reports whether the tag has unused levels.
func (b *bounds) left() bool { return b != nil && b.depth < len(b.levels) }

// next returns the bound of the next level, or unbounded if none is left.
func (b *bounds) next() int {
	if !b.left() {
		return unbounded
	}
	b.depth++
	b.passed = nil
	return b.levels[b.depth-1].max
}

// pass records that we descend through t, an array or a pointer. It returns false if t has been
// passed before since the last level, which means that t contains itself.
func (b *bounds) pass(t reflect.Type) bool {
	if !b.left() {
		return true
	}
	before := b.passed
	b.passed = append(b.passed, t)
	return !slices.Contains(before, t)
}

// keys returns the bounds of a map's keys. Call it before next, which moves on to the map's
// elements.
func (b *bounds) keys() *bounds {
	if !b.left() {
		return nil
	}
	return b.levels[b.depth].keys
}

// used reports whether every level was used.
func (b *bounds) used() bool {
	if b == nil {
		return true
	}
	for _, l := range b.levels {
		if !l.keys.used() {
			return false
		}
	}
	return !b.left()
}

// within returns an error if n exceeds bound. of says what n counts, such as "bytes".
func within(n, bound int, of string) error {
	if bound == unbounded || n <= bound {
		return nil
	}
	return fmt.Errorf("it holds %d %s, its bound is %d (quiver tag or MaxEncodedSize): %w", n, of, bound, ErrTooLong)
}
