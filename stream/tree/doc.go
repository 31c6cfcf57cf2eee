// Package tree is files on this machine: scanned into a [manifest.Manifest], and restored from one. So a folder travels, or is kept, by those of
// its chunks that the other side lacks.
//
//	source, err := tree.Scan(ctx, []string{"world"}, tree.ScanOptions{Exclude: []string{"*.tmp"}})
//	defer source.Close()
//	chunks := source.Manifest.Chunks()
//
//	restore, err := tree.NewRestore(ctx, source.Manifest, "elsewhere/world", tree.RestoreOptions{})
//	defer restore.Close() // keeps what has arrived, unless it is committed
//	for _, i := range restore.Lacks() {
//		data, err := source.Chunk(nil, chunks[i])
//		err = restore.Put(chunks[i], cdc.Pack(nil, data))
//	}
//	err = restore.Commit(ctx)
//
// Between two machines the manifest goes first, and package pieces carries the chunks: Lacks are what Talk.Fetch asks for, and Put takes what it
// gets. Package manifest reads one that comes from outside.
//
// [Scan] walks a folder, or several files and folders, and returns a [Source]: the manifest, and the bytes of its chunks.
//
// [NewRestore] goes the other way: it stages files in a work folder beside their target, of a name like .quiver-0123456789abcdef, and says which
// chunks it lacks. The caller fetches these, [Restore.Put] checks and writes them, and [Restore.Commit] makes all appear under the target's name
// in one step, whole and durable. A restore that stopped, by Close or by a crash, goes on where it was when NewRestore is called again; who does
// not want it any more removes the work folder, whose name follows from the target's. Chunks that a local copy has need no fetching: scan it,
// and set RestoreOptions.Local.
//
// Links are kept as links and never followed, neither when a folder is read nor when it is written: every name below the root goes through an
// [os.Root]. Owners, extended attributes, set-user-ID, set-group-ID and sticky bits, and holes are not kept, and of hard links each becomes a
// file of its own.
//
// A scan holds at most [manifest.MaxEntries] entries in memory, of each chunk where it is, about 100 bytes, and what [ScanOptions.Hold] says.
// Files may have any size. A restore holds one chunk of them, and what the manifest takes; how many bytes it may write the caller limits, as by
// [manifest.Parse].
package tree
