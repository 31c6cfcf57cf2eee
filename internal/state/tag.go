package state

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// tag is the parsed quiver tag of a field.
type tag struct {
	text string // as written in the source

	condition Condition
	custom    string // condition name of an if tag

	bounds []int  // values of max and each, outermost first
	scale  *scale // nil unless the tag has quant or range
	unit   bool
}

// scale says how numbers inside a field are quantised and clamped.
type scale struct {
	quantum   float64 // 0 = not quantised
	ranged    bool
	low, high string // range as text; how it is parsed depends on the type of the number

	used bool // the scale applies to some number
}

// parseTag parses the tag of a field.
func parseTag(f reflect.StructField) (tag, error) {
	text, tagged := f.Tag.Lookup("quiver")
	t := tag{text: text}
	if !tagged {
		return t, nil
	}
	for _, item := range strings.Split(text, ",") {
		word, value, valued := strings.Cut(strings.TrimSpace(item), "=")
		if err := t.put(word, value, valued); err != nil {
			return t, err
		}
	}
	if t.unit && t.scale != nil {
		return t, errors.New("a unit takes no quant and no range")
	}
	return t, nil
}

// put adds one item of the tag to t.
func (t *tag) put(word, value string, valued bool) error {
	switch word {
	case "max", "each":
		return t.bound(word, value)
	case "quant":
		return t.quant(value)
	case "range":
		return t.between(value)
	case "if":
		t.custom = value
		return t.conditional(Custom, value == "")
	}
	if valued {
		return fmt.Errorf("%q is not max, each, quant, range or if", word)
	}
	switch c := Condition(slices.Index(words[:], word)); {
	case word == "unit":
		t.unit = true
		return nil
	case c == Owner || c == SkipOwner || c == Initial:
		return t.conditional(c, false)
	}
	return fmt.Errorf("%q is not owner, skipowner, initial, if=name, "+
		"max=n, each=n, quant=step, range=low:high or unit", word)
}

// conditional sets the condition. nameless says that an if tag lacks its name.
func (t *tag) conditional(c Condition, nameless bool) error {
	switch {
	case t.condition != None:
		return errors.New("it names two conditions, a field has one")
	case nameless:
		return errors.New("if needs the name of a condition, as in if=spectator")
	}
	t.condition = c
	return nil
}

// bound adds a bound, as in the tags of arguments. max is the bound of the field. Each "each"
// is the bound of the next level inside it.
func (t *tag) bound(word, value string) error {
	n, err := strconv.ParseInt(value, 10, 32)
	switch {
	case err != nil || n < 1:
		return fmt.Errorf("%s needs a number from 1 to 2147483647", word)
	case word == "max" && len(t.bounds) > 0:
		return errors.New("max stands first and once; what is inside of the field is bounded by each")
	case word == "each" && len(t.bounds) == 0:
		return errors.New("each needs a max before it")
	}
	t.bounds = append(t.bounds, int(n))
	return nil
}

// quant sets the quantum.
func (t *tag) quant(value string) error {
	s := t.scaled()
	q, err := strconv.ParseFloat(value, 64)
	switch {
	case s.quantum != 0:
		return errors.New("it has two quants")
	case err != nil || !(q > 0) || math.IsInf(q, 0):
		return errors.New("quant needs a step above 0, as in quant=0.01")
	}
	s.quantum = q
	return nil
}

// between sets the range.
func (t *tag) between(value string) (err error) {
	s := t.scaled()
	if s.ranged {
		return errors.New("it has two ranges")
	}
	s.low, s.high, s.ranged = strings.Cut(value, ":")
	if !s.ranged {
		err = errors.New("range needs two numbers, as in range=0:100")
	}
	return err
}

// scaled returns the scale and makes it if there is none.
func (t *tag) scaled() *scale {
	if t.scale == nil {
		t.scale = &scale{}
	}
	return t.scale
}

// unused returns an error that names a tag item that the type of the field does not need.
// left is the part of the tag that was not used.
func (t *tag) unused(left *wants, typ reflect.Type) error {
	switch {
	case len(left.bounds) > 0:
		return fmt.Errorf("a bound that nothing in %v needs", typ)
	case t.scale == nil || t.scale.used:
		return nil
	case t.scale.quantum != 0:
		return fmt.Errorf("a quant, but no float in %v needs it", typ)
	}
	return fmt.Errorf("a range, but no int in %v needs it; floats need a quant with it", typ)
}
