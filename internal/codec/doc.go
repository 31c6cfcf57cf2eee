// Package codec encodes Go values. It decides which types can be encoded and how, what is
// checked before decoding, how large encodings may be, and whether two ends have the same
// type. Packages rpc and stream share it, so call arguments and array elements follow the
// same rules.
//
// [Of] returns the [Codec] of a type, or an error that names the part that cannot be encoded.
// [Encoder.Encode] and [Codec.Decode] handle a value on its own, such as a call's argument.
// [Codec.Append] and [Codec.Next] handle values that follow each other.
//
// Bounds are set by a field's quiver tag and by its type's MaxEncodedSize method. The
// documentation of package rpc has the rules for users. Both ends check the bounds: no value
// is sent that the peer would refuse, and no value is decoded before it was checked against
// its type's schema.
package codec
