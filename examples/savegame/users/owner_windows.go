package users

import (
	"io/fs"
	"os"
)

// keepOwner does nothing: a file has what its folder gives it.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
