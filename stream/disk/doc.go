// Package disk is a [stream.Store] in a folder: content that arrived under a key stays for later connections and later
// processes. Set stream.Config.Store to the store that [New] returns.
package disk
