package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quivernet/quiver/internal/files"
)

// errEmptyPath is the error for an empty path. [filepath.Abs] would turn it into the current
// folder, which a restore would then replace.
var errEmptyPath = errors.New("an empty path, which would be the current folder: say . for that")

// mounted reports whether something is mounted at a path. Tests replace it.
var mounted = files.Mounted

// absolute returns a path that does not depend on the current folder. It returns an error if p
// is empty.
func absolute(p string) (string, error) {
	if p == "" {
		return "", errEmptyPath
	}
	return filepath.Abs(p)
}

// follow is [filepath.EvalSymlinks] with better errors: they name the path and say whether it's
// a link that leads nowhere.
func follow(p string) (string, error) {
	resolved, err := filepath.EvalSymlinks(p)
	if err == nil {
		return resolved, nil
	}
	if _, lstatErr := os.Lstat(p); lstatErr == nil && errors.Is(err, fs.ErrNotExist) {
		p += ": a link that leads nowhere"
	}
	return "", fmt.Errorf("%s: %w", p, reason(err))
}

// resolve returns the path of target with links resolved. If target doesn't exist, resolve
// follows the links of the folder in which it will be created.
func resolve(target string) (string, error) {
	target, err := absolute(target)
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(target); err == nil {
		return resolved, nil
	}
	dir, err := follow(filepath.Dir(target))
	return filepath.Join(dir, filepath.Base(target)), err
}

// checkPlace returns an error if no file or folder can be renamed to target, whose links must
// be resolved. Thanks to this check, a restore fails before it has fetched anything.
func checkPlace(target string) error {
	_, err := os.Lstat(target)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case target == filepath.Dir(target): // only a root is its own parent
		return fmt.Errorf("%s is the root of a file system, which nothing can replace: "+
			"restore to a folder in it", target)
	case mounted(target):
		return fmt.Errorf("something is mounted at %s, which nothing can replace: "+
			"restore to a folder in it", target)
	}
	return nil
}
