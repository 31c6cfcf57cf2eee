// Package manifest says what a version of a save holds: a tree of files, each cut into chunks that are named by their
// digests.
//
// A [Manifest] is a list of entries, the root first: of path ".", a file when the save is one file and a folder
// otherwise. [Manifest.Append] and [Parse] are its bytes, of which there is one form only, so that the digest of the
// bytes names the content. [Cutter] cuts a file by what it holds and not by where it holds it: bytes that are inserted
// in front change the chunk that they fall into and leave the others alone. [Pack] and [Unpack] are a chunk's bytes for
// the store and the wire, compressed where that pays.
//
// What comes from outside goes through Parse and Unpack, which believe nothing: they check every rule, never panic, and
// need memory in proportion to the bytes that are there.
package manifest
