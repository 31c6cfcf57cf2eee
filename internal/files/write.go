package files

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace makes path a file with these bytes that only its owner can read. It is atomic: after a
// crash, path is either the old file or the new one.
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

// WriteBeside creates a file with these bytes that only its owner can read, in the folder of path,
// and returns the file's name. The bytes are then durable, but the name is not.
func WriteBeside(path string, data []byte) (made string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
