// Package vault keeps saves on disk: a folder for each identity, named by a hash, and in it a file for each save, named
// as its owner named it. A save appears under its name whole and durable or not at all: its bytes are flushed before a
// rename gives it the name, and the folder is flushed after it.
//
// What is on its way waits in a [stream.Store] beside, under names that are no saves' names.
package vault
