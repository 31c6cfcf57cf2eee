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

// A scale says how numbers inside a field are quantized and clamped.
type scale struct {
	quantum   float64 // 0 = not quantized
	ranged    bool
	low, high string // as text, because how to parse them depends on the type of the number

	used bool // set by the compiler once the scale applies to some number
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
		if err := t.addItem(word, value, hasValue); err != nil {
			return t, err
		}
	}
	if t.unit && t.scale != nil {
		return t, errors.New("unit cannot be combined with quant or range")
	}
	return t, nil
}

// addItem adds one item of the tag to t.
func (t *tag) addItem(word, value string, hasValue bool) error {
	switch word {
	case "max", "each":
		return t.addBound(word, value)
	case "quant":
		return t.setQuantum(value)
	case "range":
		return t.setRange(value)
	case "if":
		return t.setCondition(Custom, value)
	}
	c := Condition(slices.Index(conditionNames[:], word))
	switch {
	case word != "unit" && c != Owner && c != SkipOwner && c != Initial:
		return fmt.Errorf("unknown item %q: use owner, skipowner, initial, if=name, "+
			"max=n, each=n, quant=step, range=low:high or unit", word)
	case hasValue:
		return fmt.Errorf("%q cannot have a value: only max, each, quant, range and if can", word)
	case word == "unit":
		t.unit = true
		return nil
	}
	return t.setCondition(c, "")
}

// setCondition sets the condition. name is that of a custom one.
func (t *tag) setCondition(c Condition, name string) error {
	switch {
	case t.condition != None:
		return errors.New("field cannot have two conditions")
	case c == Custom && name == "":
		return errors.New("if needs the name of a condition, as in if=spectator")
	}
	t.condition = c
	t.custom = name
	return nil
}

// addBound adds a bound. As in the tags of arguments, "max" bounds the field itself, and every
// "each" the next level inside it.
func (t *tag) addBound(word, value string) error {
	n, err := strconv.ParseInt(value, 10, 32)
	switch {
	case err != nil || n < 1:
		return fmt.Errorf("%s needs a number from 1 to 2147483647", word)
	case word == "max" && len(t.bounds) > 0:
		return errors.New("max must come first and only once: use each for the levels inside the field")
	case word == "each" && len(t.bounds) == 0:
		return errors.New("each must come after max")
	}
	t.bounds = append(t.bounds, int(n))
	return nil
}

// setQuantum sets the quantum.
func (t *tag) setQuantum(value string) error {
	s := t.ensureScale()
	q, err := strconv.ParseFloat(value, 64)
	switch {
	case s.quantum != 0:
		return errors.New("quant is given twice")
	case err != nil || !(q > 0) || math.IsInf(q, 0):
		return errors.New("quant must be finite and above 0, as in quant=0.01")
	}
	s.quantum = q
	return nil
}

// setRange sets the range.
func (t *tag) setRange(value string) error {
	s := t.ensureScale()
	if s.ranged {
		return errors.New("range is given twice")
	}
	s.low, s.high, s.ranged = strings.Cut(value, ":")
	if !s.ranged {
		return errors.New("range needs two numbers, as in range=0:100")
	}
	return nil
}

// ensureScale returns the tag's scale, and creates it if there is none yet.
func (t *tag) ensureScale() *scale {
	if t.scale == nil {
		t.scale = &scale{}
	}
	return t.scale
}

// checkUsed returns an error if the compiler didn't need some item of the tag for a field of type
// typ. rest holds the bounds that it didn't use.
func (t *tag) checkUsed(rest *tagRest, typ reflect.Type) error {
	switch {
	case len(rest.bounds) > 0:
		return fmt.Errorf("unused bound: %v needs fewer", typ)
	case t.scale == nil || t.scale.used:
		return nil
	case t.scale.quantum != 0:
		return fmt.Errorf("unused quant: no float in %v needs it", typ)
	}
	return fmt.Errorf("unused range: no int in %v needs it, and floats need a quant with it", typ)
}
