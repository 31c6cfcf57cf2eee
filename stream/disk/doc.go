// Package disk is a [stream.Store] in a folder: what arrives under a key is there for the next connection, and the next
// process. Set [New]'s store in stream.Config.Store.
package disk
