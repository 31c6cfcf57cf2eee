// Package state encodes a game's plain structs as replicated state. It uses no clock,
// goroutines or locks, and it reflects on each type only once.
//
// [Compile] makes the [Plan] of a struct type. Each field of the struct is encoded
// separately, with everything inside it. A [Shadow] holds the last encoding of a value's
// fields and reports which fields have changed since. A [Mask] is a set of fields, encoded by
// [AppendMask] and decoded by [ReadMask]. Package rpc decides which connection receives which
// field and when, while a [Pace] decides how much of it a connection may receive.
//
// "UE:" names the counterpart in Unreal Engine, whose documentation and source then apply.
//
// # What may be replicated
//
// Bools, ints, uints, floats, references to actors, and strings, arrays, slices and structs
// of these. Strings and slices need a bound, as in call arguments:
//
//	Name  string   `quiver:"max=32"`         // bytes
//	Tags  []string `quiver:"max=10,each=20"` // elements, then bytes of each
//
// An embedded struct is one field named after its type. All fields must be exported, except
// that a blank struct{} is allowed and not sent. An encoded field has at most [MaxFieldBytes]
// bytes, so that a message with one field fits into one datagram.
//
// # Tags
//
//	quiver:"owner"              only to the connection that owns the actor (UE: COND_OwnerOnly)
//	quiver:"skipowner"          to all others (UE: COND_SkipOwner)
//	quiver:"initial"            only with the message that opens the actor (UE: COND_InitialOnly)
//	quiver:"if=name"            while the game has switched on the condition name (UE: COND_Custom)
//	quiver:"quant=0.01"         floats are encoded as multiples of 0.01
//	quiver:"range=0:100"        ints are clamped to this range, and encoded in as few bytes as it needs
//	quiver:"range=-5:5,quant=0.1" the same for floats that are encoded as multiples of 0.1
//	quiver:"unit"               three floats are a direction, which is encoded in 4 bytes
//
// A field can have one condition, but a field inside a field can't.
//
// quant, range and unit apply to everything inside the field. A range without a quant applies
// to ints; with a quant it applies to floats. Tags of an inner field take precedence.
//
// # On the wire
//
// Fields and their parts are written back to back. Both ends know the plan, because they
// first compare [Plan.Lines]. Numbers of fixed size are big-endian.
//
//	bool               a byte, 0 or 1
//	int8, uint8        a byte
//	int…, uint…        a varint, signed ones in zigzag
//	with a range       value - lowest, in as many bytes as highest - lowest needs
//	float32, float64   4 or 8 bytes; every NaN is the quiet one
//	with a quant       round(value / quant), in zigzag as a varint, or with a range as above
//	unit               two int16 of an octahedral map (see WIRE.md of package rpc)
//	reference          a varint
//	string             a varint of the number of its bytes, then UTF-8
//	slice              a varint of the number of its elements, then the elements
//	array, struct      its elements or fields
//
// Every value has exactly one encoding. All other encodings are rejected, so decoding and
// re-encoding yields the same bytes.
package state
