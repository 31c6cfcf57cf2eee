// Package codec holds how Go values travel: which types may, how they are written, what is checked before they are read,
// how large they may get, and whether two ends mean the same type. Packages rpc and stream share it, so that an argument of a
// call and an element of an array keep one set of rules.
//
// [Of] returns the [Codec] of a type, or names the part of the type that cannot travel. A value travels alone, as the
// argument of a call, by [Encoder.Encode] and [Codec.Decode], or in a row of others by [Codec.Append] and [Codec.Next].
// What a field may hold stands in its quiver tag and in the MaxEncodedSize method of its type; the rules for users are in
// the documentation of package rpc. Both ends check them: nothing leaves that the peer would refuse, and nothing is read
// before the schema of its type has measured it.
package codec
