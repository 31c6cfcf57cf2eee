// Package manifest describes a file or a folder that is to travel or to be kept: a tree of files, each cut into chunks that are named by
// their digests. Package cdc cuts them, and package pieces sends those that the other side lacks. Manifest itself reads and writes no files:
// package tree does. The example scans an fs.FS.
//
//	m := &manifest.Manifest{Entries: []manifest.Entry{
//		{Path: manifest.Root, Kind: manifest.Dir, Mode: 0o755},
//		{Path: "player", Kind: manifest.File, Mode: 0o644, Size: int64(c.Size), Chunks: []cdc.Chunk{c}},
//	}}
//	err := m.Check(0)                       // a mistake of the program that made it
//	b := m.Append(nil)                      // to the peer, as what pieces.Talk.Offer offers
//	parsed, err := manifest.Parse(b, 1<<30) // at the peer: no more than 1 GiB of files
//
// A [Manifest] is a list of entries, the root first: of path ".", a file when all is one file and a folder otherwise. [Manifest.Append] and [Parse]
// are its bytes, of which there is one form only, so that the digest of the bytes names the content.
//
// What comes from outside goes through Parse, which checks every rule of [Manifest.Check], never panics, and needs memory in proportion to the
// bytes that are there: up to 25 times as much. Who sends the bytes limits them, as by the most of pieces.Talk.ReadBlob.
//
// Who writes files where a manifest says keeps to an os.Root: paths are clean and stay below the root, but a link of the same manifest may lead
// out of it, and on Windows a path that is fine elsewhere may be a device or name a drive (filepath.Localize knows), or be another one's in
// upper case.
package manifest
