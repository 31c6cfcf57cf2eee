// Package storetest has what tests of stores and of what stands on them need: a file system in memory that forgets what
// was not flushed, a store on it, one that fails now and then, and one that is soon full.
package storetest
