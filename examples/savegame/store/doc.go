// Package store keeps immutable objects under keys: they are put once, read,
// listed and deleted, and never changed.
//
// [Store] is the contract, small enough that a bucket could implement it as well. [Folder]
// is a folder of this machine, with a folder for each folder of a key. An object that is
// put alone is a file. Objects of one folder that are put at the same time are a pack: one
// file +NAME.zip, which is not compressed. If each had a file of its own, a file system
// would take longer to write it than a chunk takes to send. A Folder keeps these promises:
//
//   - An object exists whole and durable or not at all: its bytes are flushed under a temporary
//     name before a rename makes it visible, and the folder is flushed before Put returns.
//   - Puts that run at the same time share the cost of flushing, so a caller with many
//     objects starts all and then waits. A pack is written as its objects arrive, so
//     memory holds half a MiB of each pack at most, for 64 packs at once. On Linux packs
//     are written past the system's cache (O_DIRECT) if the file system allows that.
//   - A pack is never changed. If some of its objects are deleted, a pack without them takes its
//     place, in one step. So a delete needs as much room as the largest pack has, for a moment.
//   - One process has the folder: a second one is refused, and told who has it
//     ([ErrLocked]). So the names of the objects are read once, when the store
//     is opened; what somebody else removes is missing from the next Get on.
//   - The name of a file says which format the store has. A program that does not
//     know the format refuses the store, instead of considering its files damaged.
//   - If the system cannot flush a folder, it is unknown what of it is on the
//     disk. The store then refuses everything until it is opened again, which
//     flushes every folder before it reads what is there ([ErrBroken]).
package store
