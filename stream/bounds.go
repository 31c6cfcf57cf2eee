package stream

import (
	"fmt"
	"strconv"
	"strings"
)

// bounds is a field's tag, read level by level as the walk goes down the field's type.
type bounds struct {
	levels []level
	depth  int  // levels passed on the way down
	isKey  bool // these are the bounds of a map's keys
}

type level struct {
	max int64 // bytes or elements
	key int64 // bytes of a map's keys; -1 when not given
	// keys is what the walk of the map's keys left of key.
	keys *bounds
}

// parseBounds reads `max=100,key=16,each=20`.
func parseBounds(tag string) (*bounds, error) {
	b := &bounds{}
	if tag == "" {
		return b, nil
	}
	for _, item := range strings.Split(tag, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(item), "=")
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q needs a number from 0 to 2147483647", item)
		}
		if err := b.put(name, n); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *bounds) put(name string, n int64) error {
	switch {
	case name == "max" && len(b.levels) == 0, name == "each" && len(b.levels) > 0:
		b.levels = append(b.levels, level{max: n, key: -1})
	case name == "key" && len(b.levels) > 0:
		b.levels[len(b.levels)-1].key = n
	case name == "max":
		return fmt.Errorf("max stands first and once; what is inside of the field is bounded by each")
	case name == "each" || name == "key":
		return fmt.Errorf("%s needs a max before it", name)
	default:
		return fmt.Errorf("%q is not max, each or key", name)
	}
	return nil
}

// next is the bound of the level that the walk enters.
func (b *bounds) next() (int64, bool) {
	if b.depth >= len(b.levels) {
		return 0, false
	}
	n := b.levels[b.depth].max
	b.depth++
	return n, true
}

// keys are the bounds of the keys of the map that the walk is about to enter.
func (b *bounds) keys() *bounds {
	k := &bounds{isKey: true}
	if b.depth < len(b.levels) && b.levels[b.depth].key >= 0 {
		k.levels = []level{{max: b.levels[b.depth].key, key: -1}}
		b.levels[b.depth].keys = k
	}
	return k
}

// used reports whether the walk needed every bound.
func (b *bounds) used() bool {
	for _, l := range b.levels {
		if l.key >= 0 && (l.keys == nil || !l.keys.used()) {
			return false
		}
	}
	return b.depth == len(b.levels)
}

// missing is the error for a level without a bound.
func (b *bounds) missing(path string) error {
	tag := `quiver:"max=N"`
	switch {
	case b.isKey:
		tag = `key=N to its quiver tag`
	case b.depth > 0:
		tag = `each=N to its quiver tag`
	}
	return fmt.Errorf("%s is unbounded; add %s, a MaxEncodedSize() int method to its type, or use MaxElementBytes", path, tag)
}
