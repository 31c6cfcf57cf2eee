// Package manifest says what a file or a folder holds, which is to travel or to be kept: a tree of files, each cut into chunks that are named by
// their digests. Package cdc cuts them, and package pieces sends those that the other side lacks.
//
// A [Manifest] is a list of entries, the root first: of path ".", a file when all is one file and a folder otherwise.
// [Manifest.Append] and [Parse] are its bytes, of which there is one form only, so that the digest of the bytes names
// the content.
//
// What comes from outside goes through Parse, which believes nothing: it checks every rule, never panics, and needs memory in proportion to the
// bytes that are there.
package manifest
