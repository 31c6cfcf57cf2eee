// Package versions keeps each user's saves, and the versions of each save, in a [store.Store]. A
// version is a complete set of files, described by package manifest, that never changes. Two
// machines never overwrite each other's saves.
//
// For a put, [User.Begin] checks whether it is allowed, [Put.Lacks] accepts the manifest and
// returns which chunks are missing, [Put.Chunk] verifies and stores each of those, and [Put.Commit]
// makes the version. A put that was interrupted is begun again, and then fewer chunks are missing.
// A get calls [User.Open], and [Content.Chunk] for each chunk that the other side doesn't have.
//
// # Conflicts
//
// For each save, a client remembers the [Ref] of the version that it saw last. A put that would
// replace different content fails with a [*Conflict], unless its [Mode] says otherwise. A put of
// the content that is already the newest version succeeds without making another one, so a put
// whose answer was lost can simply be repeated. A put of a save in the trash brings the save back
// if the client saw what was removed, and is a conflict otherwise. [User.Erase] is also a conflict
// if the machine hasn't seen everything that the save holds, unless a machine that had seen it
// moved the save to the trash.
//
// # What is kept
//
// Of each save, the newest version, the last Config.Keep versions, and all versions younger than
// Config.KeepFor are kept. A removed save is kept for Config.KeepFor and then deleted as a whole.
// Since the clock may be wrong, the age of a save's newest version is the time since this process
// first saw it, plus its age at that moment if its time is plausible: within a year, and not before
// the previous version's. No more than a seventh of Config.KeepFor counts of the time between two
// versions. Therefore a clock that was in 1970, or is years ahead, deletes nothing too early.
//
// If a put doesn't fit into the quota or onto the disk, the user's oldest versions are deleted, but
// never the newest version of a save. [User.Displaced] returns which ones. Nothing is deleted for a
// put whose uncompressed size can't fit; it fails with [*Full]. What running puts may still need
// counts as used; in the total quota, only the same user's puts do. The disk keeps Config.Reserve
// free for records of the trash, so that [User.Remove] always has room. Each object counts as its
// blocks and one more (see [store.Occupied]).
//
// Chunks that no version has, because their put was abandoned, are kept for Config.Grace so that
// the put can continue later, unless it failed for lack of room. After that, [Versions.Collect]
// deletes them along with versions that are too old. It keeps whatever a running put or get refers
// to.
//
// # What is in the store
//
//	users/_U/chunks/5c0f….131072        a chunk as cdc.Pack made it: its digest, and its size unpacked
//	users/_U/manifests/93a1…            the bytes of a manifest: their digest
//	users/_U/names/_N/00000003          a version: JSON, with the digest of itself
//
// U and N are the names of a user and a save, with =20 for a space. Objects are written in the
// order of this list and deleted in the reverse order, so a version that exists is complete. A
// version is created only if none with its number exists, so of two puts of one version only one
// succeeds. Users share nothing, because knowing a digest doesn't prove that a user has the
// content.
//
// Only one process at a time may use a store, which store.Folder ensures. Within that process
// everything is safe for concurrent use, except for the methods of a single Put or Content other
// than Chunk.
package versions
