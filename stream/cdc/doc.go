// Package cdc cuts contents into chunks that are named by their digests, so that what two contents share is stored and sent once. [Cutter] cuts a
// content by what it holds and not by where it holds it: bytes that are inserted in front change the chunk that they fall into and leave the
// others alone. [Pack] and [Unpack] are a chunk's bytes for a store and for the wire, compressed where that pays. Package pieces sends those that
// the other side lacks.
//
// What comes from outside goes through Unpack or Verify, which believe nothing: they never panic, and need no more memory than a chunk has.
package cdc
