// Package manifest describes a file or a folder that is to be sent or stored, as a tree of
// files. Each file is cut into chunks that are named by their digests.
//
// Package cdc cuts the files, and package pieces sends the chunks that the other end does
// not have. Package manifest itself reads and writes no files; package tree does. The
// example scans an fs.FS.
//
//	m := &manifest.Manifest{Entries: []manifest.Entry{
//		{Path: manifest.Root, Kind: manifest.Dir, Mode: 0o755},
//		{Path: "player", Kind: manifest.File, Mode: 0o644, Size: int64(c.Size), Chunks: []cdc.Chunk{c}},
//	}}
//	err := m.Check(0)                       // an error is a mistake of the program that made m
//	b := m.Append(nil)                      // send it to the peer, for example with pieces.Talk.Offer
//	parsed, err := manifest.Parse(b, 1<<30) // at the peer: no more than 1 GiB of files
//
// A [Manifest] is a list of entries. The first is the root, whose path is ".". The root is
// a file if the manifest describes a single file, and a folder otherwise.
//
// [Manifest.Append] and [Parse] convert a manifest to bytes and back. A manifest has only
// one encoding, so the digest of the bytes names the content.
//
// Bytes from outside must go through Parse. It checks every rule of [Manifest.Check], never
// panics, and needs at most 25 times as much memory as there are bytes. The caller must
// limit the number of bytes that it accepts, for example by the maxBytes argument of
// pieces.Talk.ReadBlob.
//
// A program that writes the files of a manifest should use an os.Root. Paths are clean and
// stay below the root, but a link in the same manifest may lead out of it.
//
// On Windows, a path that is valid elsewhere may be a device or name a drive, which
// filepath.Localize detects. It may also equal another path except for case.
package manifest
