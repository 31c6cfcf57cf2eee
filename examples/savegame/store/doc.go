// Package store keeps immutable objects under keys: they are put once, read, listed and deleted, and never changed.
//
// [Store] is the contract, small enough that a bucket keeps it as well. [Folder] is a folder of this machine: a file for
// each object, a folder for each folder in its key. What makes it a place to trust:
//
//   - An object is there whole and durable or not at all: its bytes are flushed under a temporary name before a rename
//     shows it, and the folder is flushed before Put returns.
//   - Puts that run at the same time share what flushing costs, so whoever has many objects puts them from many goroutines:
//     1,024 objects of 128 KiB took 4.2 s one by one and 1.2 s so.
//   - One process has the folder: the second one is refused, and told who has it ([ErrLocked]).
//   - When the system cannot flush a folder nobody knows what of it is on the disk. The store then refuses everything
//     until it is opened again, which flushes every folder before it says what is there ([ErrBroken]).
package store
