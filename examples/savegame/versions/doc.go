// Package versions keeps of each user the saves, and of each save its versions, on a [store.Store]. A version is what
// package manifest describes, whole and never changed; two machines never lose a save.
//
// A put goes so: [User.Begin] says whether it may, [Put.Lacks] takes the manifest and says which chunks are missing,
// [Put.Chunk] takes those, each verified, and [Put.Commit] makes the version. A put that ended half way is begun again:
// it lacks less then. A get is [User.Open], and [Content.Chunk] for what the other side does not have.
//
// # Conflicts
//
// A client remembers for each save the [Ref] of the version that it saw last. A put over another content is a [*Conflict],
// unless its [Mode] says otherwise. A put of what is the newest version already makes none and conflicts with nothing, so
// that one whose answer was lost is simply made again. A put over what is in the trash brings the save back where it knows what was removed,
// and is a conflict otherwise. [User.Erase] is a conflict too for who has not seen all that a save holds, unless one who had seen it put it into
// the trash.
//
// # What stays
//
// Of each save the newest version, the last Config.Keep and all younger than Config.KeepFor; what was removed stays that long too, and then goes as
// a whole. The clock may be wrong, so age is what this process has seen pass since a save's newest version, how old that was at first if its time
// can be true, which is not before the version before it and within a year, and of the time between two versions a seventh of Config.KeepFor at
// most: a clock that stood in 1970, or is years ahead, deletes nothing too early. When a put does not fit into the quota, or onto the disk, its
// user's oldest versions go first, never the newest of a save, and [User.Displaced] says which. Before anything goes for it, a put must fit as large
// as it is before compression: else it is refused with [*Full]. What running puts may still need counts, in the total quota only that of the same
// user. The disk keeps Config.Reserve free, which is for records of the trash: [User.Remove] needs no other room. Every object counts as
// [store.Occupied] says: its blocks, and one more.
//
// Chunks that no version has, because a put was given up, stay for Config.Grace, so that it may go on, unless it had filled
// the disk; [Versions.Collect] deletes them then, and what is too old. Whatever a running put or get refers to stays.
//
// # What is in the store
//
//	users/_U/chunks/5c0f….131072        a chunk as cdc.Pack made it: its digest, and its size unpacked
//	users/_U/manifests/93a1…            the bytes of a manifest: their digest
//	users/_U/names/_N/00000003          a version: JSON, with the digest of itself
//
// U and N are names of users and saves, with =20 for a space. Objects are written in the order of this list, so that a
// version that is there has everything, and deleted in the other order. Versions are only ever created where none is, so two puts of one
// version exclude each other by construction. Users share nothing: knowing a digest proves nothing.
//
// One process at a time may use a store, as store.Folder sees to. Within it everything may be called at once, but for the
// methods of one Put or Content other than Chunk.
package versions
