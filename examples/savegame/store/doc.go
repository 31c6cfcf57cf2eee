// Package store keeps immutable objects under keys. Objects are put once, read, listed and deleted,
// but never changed.
//
// [Store] is an interface, small enough that an object store in the cloud could implement it too.
// [Folder] implements it in a folder of this machine, with a subfolder for each folder of a key. An
// object that is put alone becomes a file. Objects of one folder that are put at the same time
// become a pack, which is a single uncompressed file +NAME.zip, because a file system would take
// longer to write a separate file for each than a chunk takes to send. A Folder guarantees the
// following:
//
//   - An object is either complete and durable, or it doesn't exist. Its bytes are flushed under a
//     temporary name before a rename makes it visible, and the folder is flushed before Put
//     returns.
//   - Puts that run at the same time share the cost of flushing, so a caller with many objects
//     should start all of them and then wait. A pack is written as its objects arrive, so no more
//     than half a MiB of each pack, for up to 64 packs at once, is in memory. On Linux, packs
//     bypass the system's cache (O_DIRECT) if the file system supports that.
//   - A pack is never changed. If some of its objects are deleted, a pack without them atomically
//     takes its place, so a delete temporarily needs as much room as the largest pack takes.
//   - Only one process has the folder. A second one fails with [ErrLocked], whose text names the
//     first. Therefore the names of the objects are read only once, when the store is opened, and a
//     Get notices that somebody else removed a file.
//   - The name of a file tells the format of the store. A program that doesn't know the format
//     refuses to open the store, instead of considering its files damaged.
//   - If the system can't flush a folder, it is unknown how much of it is on the disk. All calls
//     then fail with [ErrBroken] until the store is opened again, which flushes every folder before
//     reading it.
package store
