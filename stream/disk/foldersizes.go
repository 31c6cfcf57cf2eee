package disk

import (
	"os"
	"path/filepath"
	"time"
)

const (
	// listAfter is how long a list of all folders stays valid, except for folders that this
	// process changes. Without it, opening a part would look at the folder of every identity.
	listAfter = time.Second
	// measureAfter is how long the size of a folder stays valid if this process has not
	// changed the folder, and no list shows that another process has added or removed a
	// name. Without it, each list would look at every file of every identity.
	measureAfter = 10 * time.Second
)

// folderSizes holds how many bytes each folder of a store contains. Store.mu
// guards it, so no part can be opened while a folder is measured for another.
type folderSizes struct {
	path string // of the store
	walk func(folder string) ([]storedFile, error)

	known  map[string]folderSize // by folder
	stale  map[string]bool       // folders that this process has changed since they were measured
	listed time.Time             // when the folders were last listed
}

// folderSize is the size of a folder when it was measured.
type folderSize struct {
	bytes    int64
	modified time.Time // when a name in the folder had last changed
	at       time.Time // when it was measured
}

// changed records that this process changes the content of a folder, so that
// bytesBeside measures it again.
func (s *folderSizes) changed(folder string) {
	delete(s.known, folder)
	s.stale[folder] = true
}

// bytesBeside returns how many bytes are stored in all folders except own.
func (s *folderSizes) bytesBeside(own string) (bytes int64, err error) {
	refresh := s.refreshAll
	if time.Since(s.listed) < listAfter {
		refresh = s.refreshStale
	}
	if err := refresh(own); err != nil {
		return 0, err
	}
	for folder, size := range s.known {
		if folder != own {
			bytes += size.bytes
		}
	}
	return bytes, nil
}

// refreshStale measures the folders that this process has changed, except own.
func (s *folderSizes) refreshStale(own string) error {
	for folder := range s.stale {
		if folder == own {
			continue
		}
		size, ok, err := s.measure(folder)
		if err != nil {
			return err
		}
		if ok {
			s.known[folder] = size
		}
		delete(s.stale, folder)
	}
	return nil
}

// refreshAll lists the folders and measures them all, except own, which stays
// stale, and folders that do not belong to the store, such as lost+found.
func (s *folderSizes) refreshAll(own string) error {
	folders, err := os.ReadDir(s.path)
	if err != nil {
		return err
	}
	known := make(map[string]folderSize, len(folders))
	for _, e := range folders {
		folder := filepath.Join(s.path, e.Name())
		if folder == own || !e.IsDir() || !isHashName(e.Name()) {
			continue
		}
		size, ok, err := s.measure(folder)
		if err != nil {
			return err
		}
		if ok {
			known[folder] = size
		}
	}
	s.known, s.stale, s.listed = known, map[string]bool{own: true}, time.Now()
	return nil
}

// measure returns the size of a folder: the known one if that is still valid.
// Otherwise it walks the folder, which removes expired parts and a folder that
// is empty (see Store.walkFolder). ok is false if there is no such folder.
func (s *folderSizes) measure(folder string) (size folderSize, ok bool, err error) {
	info, err := os.Lstat(folder)
	if err != nil || !info.IsDir() {
		return folderSize{}, false, ignoreMissing(err)
	}
	now := time.Now()
	if size, ok = s.known[folder]; ok && size.modified.Equal(info.ModTime()) && now.Sub(size.at) < measureAfter {
		return size, true, nil
	}
	size = folderSize{modified: info.ModTime(), at: now}
	files, err := s.walk(folder)
	for _, f := range files {
		size.bytes += f.size
	}
	return size, err == nil, err
}
