package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quivernet/quiver/internal/files"
)

// errEmptyPath is said of a path that nobody gave: [filepath.Abs] takes it for the current folder, which a restore would replace.
var errEmptyPath = errors.New("an empty path, which would be the current folder: say . for that")

// mounted is what a test replaces by a system on which something is mounted.
var mounted = files.Mounted

// absolute returns a path that does not depend on the current folder.
func absolute(p string) (string, error) {
	if p == "" {
		return "", errEmptyPath
	}
	return filepath.Abs(p)
}

// follow is [filepath.EvalSymlinks], whose errors do not always name the path, and never say that there is a link.
func follow(p string) (string, error) {
	there, err := filepath.EvalSymlinks(p)
	if err == nil {
		return there, nil
	}
	if _, is := os.Lstat(p); is == nil && errors.Is(err, fs.ErrNotExist) {
		p += ": a link that leads nowhere"
	}
	return "", fmt.Errorf("%s: %w", p, reason(err))
}

// resolve follows links to what is there, or to the folder where it will be.
func resolve(target string) (string, error) {
	target, err := absolute(target)
	if err != nil {
		return "", err
	}
	if there, err := filepath.EvalSymlinks(target); err == nil {
		return there, nil
	}
	dir, err := follow(filepath.Dir(target))
	return filepath.Join(dir, filepath.Base(target)), err
}

// checkPlace reports why nothing could be renamed to a resolved target, so that a restore fails before it has fetched anything.
func checkPlace(target string) error {
	switch _, err := os.Lstat(target); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case target == filepath.Dir(target):
		return fmt.Errorf("%s is the root of a file system, which nothing can replace: restore to a folder in it", target)
	case mounted(target):
		return fmt.Errorf("something is mounted at %s, which nothing can replace: restore to a folder in it", target)
	}
	return nil
}
