// Package versions keeps the saves of each user, and the versions of each save,
// on a [store.Store]. A version is what package manifest describes, complete
// and never changed. Two machines never lose a save to each other.
//
// For a put, [User.Begin] checks whether it is allowed, [Put.Lacks] takes the manifest and
// returns which chunks are missing, [Put.Chunk] takes those and verifies each, and
// [Put.Commit] makes the version. A put that was interrupted is begun again, and then lacks
// less. A get is [User.Open], and [Content.Chunk] for what the other side does not have.
//
// # Conflicts
//
// A client remembers for each save the [Ref] of the version that it has seen last. A put over
// another content is a [*Conflict], unless its [Mode] says otherwise. A put of what is the
// newest version already makes no version and is no conflict, so a put whose answer was lost is
// simply made again. A put over a save in the trash brings the save back if it has seen what
// was removed, and is a conflict otherwise. [User.Erase] is a conflict too if the machine has
// not seen all that a save holds, unless a machine that had seen it has put it into the trash.
//
// # What is kept
//
// Of each save the newest version, the last Config.Keep and all younger than Config.KeepFor are
// kept. What was removed is kept for as long, and then deleted as a whole. The clock may be
// wrong, so age is the time that this process has seen pass since a save's newest version, and
// how old that was at first if its time can be true, which means not before the version before
// it and within a year. Of the time between two versions at most a seventh of Config.KeepFor
// counts. So a clock that was in 1970, or is years ahead, deletes nothing too early.
//
// If a put does not fit into the quota, or onto the disk, its user's oldest versions are
// deleted first, but never the newest of a save, and [User.Displaced] returns which. Before
// anything is deleted for a put, its size before compression must fit: otherwise it is refused
// with [*Full]. What running puts may still need counts, in the total quota only for the same
// user. The disk keeps Config.Reserve free for records of the trash: [User.Remove] needs no
// other room. Every object counts as [store.Occupied] says: its blocks, and one more.
//
// Chunks that no version has, because a put was abandoned, are kept for Config.Grace, so that
// the put may continue, unless it had filled the disk. Then [Versions.Collect] deletes them,
// together with versions that are too old. Whatever a running put or get refers to is kept.
//
// # What is in the store
//
//	users/_U/chunks/5c0f….131072        a chunk as cdc.Pack made it: its digest, and its size unpacked
//	users/_U/manifests/93a1…            the bytes of a manifest: their digest
//	users/_U/names/_N/00000003          a version: JSON, with the digest of itself
//
// U and N are names of users and saves, with =20 for a space. Objects are written in
// the order of this list, so a version that exists has everything, and deleted in
// the reverse order. A version is only created where none exists, so two puts of one
// version exclude each other. Users share nothing: knowing a digest proves nothing.
//
// Only one process at a time may use a store; store.Folder ensures that. Within it everything
// is safe for concurrent use, except for the methods of one Put or Content other than Chunk.
package versions
