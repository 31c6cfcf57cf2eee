// Package state holds how a game's plain struct travels as replicated state. It is a pure machine: no clock, goroutine or
// lock; what it knows of a type it learns once, by reflection.
//
// [Compile] makes the [Plan] of a struct type: each field of the struct travels by itself, and what is inside of a field
// travels with it. A [Shadow] remembers what a value's fields looked like when they were last encoded, and says which have
// changed since. A [Mask] is a set of fields; [AppendMask] and [ReadMask] carry one. Package rpc decides who gets which
// field when.
//
// # What may be replicated
//
// Bools, ints, uints, floats, references to actors, and strings, arrays, slices and structs of them. Strings and slices
// have a bound, as in arguments of calls:
//
//	Name  string   `quiver:"max=32"`         // bytes
//	Tags  []string `quiver:"max=10,each=20"` // elements, then bytes of each
//
// An embedded struct is one field with the name of its type. All fields are exported; a blank one is a struct{} and does
// not travel. A field takes at most [MaxField] bytes, so that a message that carries it fits one datagram.
//
// # Tags
//
//	quiver:"owner"              only to the connection that owns the actor (UE: COND_OwnerOnly)
//	quiver:"skipowner"          to all others (UE: COND_SkipOwner)
//	quiver:"initial"            with the open of the actor only (UE: COND_InitialOnly)
//	quiver:"if=name"            while the game has the condition of that name on (UE: COND_Custom)
//	quiver:"quant=0.01"         floats travel as multiples of 0.01
//	quiver:"range=0:100"        ints travel in the bytes that these values need; others are clamped
//	quiver:"range=-5:5,quant=0.1" floats likewise
//	quiver:"unit"               three floats are a direction and take 4 bytes
//
// A field has at most one condition, and only fields of the state itself have one. quant, range and unit hold for all that
// is inside of the field: a range alone for ints, together with a quant for floats. What is inside may have a quant or range
// of its own, which then holds instead.
//
// # On the wire
//
// There is nothing between fields, nor between the parts of one: both ends know the plan, whose [Plan.Lines] they compare
// before. Numbers of fixed size are big-endian.
//
//	bool               a byte, 0 or 1
//	int8, uint8        a byte
//	int…, uint…        a varint, signed ones in zigzag
//	with a range       value - lowest, in as many bytes as highest - lowest needs
//	float32, float64   4 or 8 bytes; every NaN is the quiet one
//	with a quant       round(value / quant), in zigzag as a varint, or with a range as above
//	unit               two int16 of an octahedral map
//	reference          a varint
//	string             a varint of its bytes, then UTF-8
//	slice              a varint of its elements, then they
//	array, struct      its elements or fields
//
// Every value has one encoding and every other is refused, so that bytes that were read and are written again are the same.
package state
