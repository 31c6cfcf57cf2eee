// Package disk implements [stream.Store] in a folder. Content that arrived under a key stays for
// later connections and later processes. Set stream.Config.Store to the store that [New] returns.
package disk
