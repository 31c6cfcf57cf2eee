package store

import "golang.org/x/sys/windows"

// free returns how many bytes may still be written to the disk that dir is on.
func free(dir string) (int64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var available uint64
	err = windows.GetDiskFreeSpaceEx(path, &available, nil, nil)
	return int64(available), err
}
