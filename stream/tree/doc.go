// Package tree scans files on this machine into a [manifest.Manifest], and restores files from
// one. To send or store a folder, it then takes only the chunks that the other end doesn't have
// yet.
//
//	source, err := tree.Scan(ctx, []string{"world"}, tree.ScanOptions{Exclude: []string{"*.tmp"}})
//	defer source.Close()
//	chunks := source.Manifest.Chunks()
//
//	restore, err := tree.NewRestore(ctx, source.Manifest, "elsewhere/world", tree.RestoreOptions{})
//	defer restore.Close() // what has arrived stays for the next restore, unless this one is committed
//	for _, i := range restore.Lacks() {
//		data, err := source.Chunk(nil, chunks[i])
//		err = restore.Put(chunks[i], cdc.Pack(nil, data))
//	}
//	err = restore.Commit(ctx)
//
// Between two machines, the manifest goes first and package pieces sends the chunks: ask
// Talk.Fetch for what Lacks returns, and Put each chunk that arrives. A manifest from outside
// must be parsed with package manifest, which checks it.
//
// [Scan] walks a folder, or several files and folders. The [Source] that it returns has the
// manifest and can read the bytes of each chunk.
//
// [NewRestore] is the way back. It builds the files in a work folder next to their target, named
// like .quiver-0123456789abcdef, and says which chunks are missing. The caller fetches those,
// and [Restore.Put] verifies and writes each one. Nothing appears under the target's name until
// [Restore.Commit] puts everything there, complete, durable and in one step.
//
// If a restore is closed early or crashes, the next NewRestore of the target continues where it
// stopped. To give up for good, remove the work folder. Its name follows from the target's.
//
// Chunks that are already on this machine needn't be fetched. To use an older copy, scan it and
// set RestoreOptions.Local.
//
// A link is kept as a link and never followed, whether a folder is being read or written. Every
// name below the root goes through an [os.Root].
//
// Owners, extended attributes, holes, and the set-user-ID, set-group-ID and sticky bits are not
// kept. Each hard link becomes a file of its own.
//
// # Limits
//
// A scan keeps in memory at most [manifest.MaxEntries] entries, about 100 bytes for each chunk
// to remember where it is, and as many bytes as [ScanOptions.Hold] allows. Files may have any
// size.
//
// A restore keeps one chunk and the manifest. How many bytes it writes is up to the manifest,
// so the caller must limit that, for example with [manifest.Parse].
package tree
