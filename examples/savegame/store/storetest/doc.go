// Package storetest helps to test stores and what is built on them. It has a
// file system in memory that forgets what was not flushed, a store on it, one
// that fails now and then, and one that is soon full.
package storetest
