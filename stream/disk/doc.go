// Package disk implements [stream.Store] in a folder on disk.
//
// Content that arrived under a key is kept for later connections and later processes. Set
// stream.Config.Store to the store that [New] returns.
package disk
