// Package codec encodes Go values: it decides which types can be encoded and how,
// what is checked before they are decoded, how large encodings may be, and
// whether two ends have the same type. It is shared by packages rpc and stream,
// so that an argument of a call and an element of an array follow the same rules.
//
// [Of] returns the [Codec] of a type, or names the part of the type that cannot be encoded.
// A value is encoded by itself, as the argument of a call, by [Encoder.Encode] and
// [Codec.Decode], or after others by [Codec.Append] and [Codec.Next]. Bounds are set by a
// field's quiver tag and the MaxEncodedSize method of its type; the documentation of
// package rpc has the rules for users. Both ends check them: no value is sent that the peer
// would refuse, and none is decoded before it was checked against the schema of its type.
package codec
