// Package tree is files on this machine: scanned into a [manifest.Manifest], and restored from one.
//
// [Scan] walks a folder, or several files and folders, and returns a [Source]: the manifest, and the bytes of its chunks.
//
// [NewRestore] goes the other way: it stages a save in a work folder beside the place where it belongs and says which
// chunks it lacks. The caller fetches these, [Restore.Put] checks and writes them, and [Restore.Commit] makes the save
// appear under its name in one step, whole and durable. A get that stopped, by Close or by a crash, goes on where it was
// when NewRestore is called again. Chunks that a local copy has need no fetching: scan it, and set RestoreOptions.Local.
//
// Links are kept as links and never followed, neither when a folder is read nor when it is written: every name below the
// root goes through an [os.Root].
package tree
