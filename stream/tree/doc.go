// Package tree scans files on this machine into a [manifest.Manifest], and restores files
// from one. With it, a folder can be sent or stored as only those of its chunks that the
// other end does not have.
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
// Between two machines the manifest is sent first, and package pieces sends the chunks.
// Talk.Fetch asks for the Lacks, and Put stores the received chunks. A manifest from
// outside must be parsed by package manifest.
//
// [Scan] walks a folder, or several files and folders. It returns a [Source]: the manifest,
// and access to the bytes of its chunks.
//
// [NewRestore] does the reverse. It stages files in a work folder beside their target, with
// a name like .quiver-0123456789abcdef, and reports which chunks it lacks. The caller
// fetches these. [Restore.Put] verifies and writes each chunk. [Restore.Commit] makes
// everything appear under the target's name, complete, durable and in one step.
//
// After Close or a crash, the next NewRestore of the target continues where the restore
// stopped. To give up a restore for good, remove the work folder, whose name follows
// from the target's.
//
// Chunks in a local copy need not be fetched: scan the copy, and set RestoreOptions.Local.
//
// Links are kept as links and never followed, neither when a folder is read nor when it is
// written. Every name below the root goes through an [os.Root].
//
// Not kept are owners, extended attributes, holes, and set-user-ID, set-group-ID and sticky
// bits. Each hard link becomes a file of its own.
//
// # Limits
//
// A scan holds in memory at most [manifest.MaxEntries] entries, the location of each chunk
// in about 100 bytes, and the bytes that [ScanOptions.Hold] allows. Files may have any size.
//
// A restore holds one chunk and the manifest. The caller must limit the number of bytes
// that a restore may write, for example with [manifest.Parse].
package tree
