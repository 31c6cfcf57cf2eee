// Package store keeps immutable objects under keys: they are put once, read, listed and deleted, and never changed.
//
// [Store] is the contract, small enough that a bucket keeps it as well. [Folder] is a folder of this machine, with a folder for each
// folder of a key. An object that is put alone is a file. Those of one folder that are put at the same time are a pack, one file
// +NAME.zip that is not compressed: for each file of its own a file system would write more than a chunk takes to send. What makes it a
// place to trust:
//
//   - An object is there whole and durable or not at all: its bytes are flushed under a temporary name before a rename
//     shows it, and the folder is flushed before Put returns.
//   - Puts that run at the same time share what flushing costs, so whoever has many objects starts many and waits then. A pack is written as
//     they come, so memory holds half a MiB of each at most, for 64 packs at once. On Linux they are written past the system's cache (O_DIRECT)
//     where the file system allows that.
//   - A pack is never changed. When some of its objects are deleted, one without them takes its place, in one step; so a delete
//     needs as much room as the largest pack has, for a moment.
//   - One process has the folder: the second one is refused, and told who has it ([ErrLocked]). So what there is is read once, when the store
//     is opened; what somebody else removes is missing from the next Get on.
//   - The name of a file says which format the store has. A program that does not know it refuses the store, and takes nothing for damaged.
//   - When the system cannot flush a folder nobody knows what of it is on the disk. The store then refuses everything
//     until it is opened again, which flushes every folder before it says what is there ([ErrBroken]).
package store
