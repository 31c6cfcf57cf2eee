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

// A tag is the parsed quiver tag of a field.
type tag struct {
	text string // as written in the source

	// To whom the field is sent.
	condition Condition
	custom    string // name of the condition if it is Custom

	// How the field is encoded.
	bounds []int  // values of max and each, outermost first
	scale  *scale // nil unless the tag has quant or range
	unit   bool
}

// A scale says how numbers inside a field are quantised and clamped.
type scale struct {
	quantum   float64 // 0 = not quantised
	ranged    bool
	low, high string // as text, because how to parse them depends on the type of the number

	used bool // the scale applies to some number; set by the compiler
}

// parseTag parses the tag of a field.
func parseTag(f reflect.StructField) (tag, error) {
	text, tagged := f.Tag.Lookup("quiver")
	t := tag{text: text}
	if !tagged {
		return t, nil
	}
	for _, item := range strings.Split(text, ",") {
		word, value, hasValue := strings.Cut(strings.TrimSpace(item), "=")
		if err := t.put(word, value, hasValue); err != nil {
			return t, err
		}
	}
	if t.unit && t.scale != nil {
		return t, errors.New("a unit takes no quant and no range")
	}
	return t, nil
}

// put adds one item of the tag to t.
func (t *tag) put(word, value string, hasValue bool) error {
	switch word {
	case "max", "each":
		return t.bound(word, value)
	case "quant":
		return t.quant(value)
	case "range":
		return t.between(value)
	case "if":
		t.custom = value
		return t.setCondition(Custom, value == "")
	}
	if hasValue {
		return fmt.Errorf("%q is not max, each, quant, range or if", word)
	}
	switch c := Condition(slices.Index(words[:], word)); {
	case word == "unit":
		t.unit = true
		return nil
	case c == Owner || c == SkipOwner || c == Initial:
		return t.setCondition(c, false)
	}
	return fmt.Errorf("%q is not owner, skipowner, initial, if=name, "+
		"max=n, each=n, quant=step, range=low:high or unit", word)
}

// setCondition sets the condition. nameless says that it's an if without a name.
func (t *tag) setCondition(c Condition, nameless bool) error {
	switch {
	case t.condition != None:
		return errors.New("it names two conditions, a field has one")
	case nameless:
		return errors.New("if needs the name of a condition, as in if=spectator")
	}
	t.condition = c
	return nil
}

// bound adds a bound, which works as in the tags of arguments: "max" bounds the field itself, and
// every "each" the next level inside it.
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

// scaled returns the tag's scale, which it makes if there is none yet.
func (t *tag) scaled() *scale {
	if t.scale == nil {
		t.scale = &scale{}
	}
	return t.scale
}

// unused returns an error if the type of the field doesn't need some item of the tag, of which
// left is what remains after compilation.
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
