package files

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace makes path a file with these bytes, for its owner alone, and
// atomically: after a crash there is the old file or the new one.
func Replace(path string, data []byte) error {
	made, err := WriteBeside(path, data)
	if err != nil {
		return err
	}
	if err := os.Rename(made, path); err != nil {
		return errors.Join(err, os.Remove(made))
	}
	return nil
}

// WriteBeside creates a file with these bytes, for its owner alone, in the folder
// of path, and returns its name. The bytes are durable then, but the name is not.
func WriteBeside(path string, data []byte) (made string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
