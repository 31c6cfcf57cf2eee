// Package storetest has what tests of stores and of what stands on them need: a store in memory, one that fails now and
// then, one that is soon full, and a file system that forgets what was not flushed.
package storetest
