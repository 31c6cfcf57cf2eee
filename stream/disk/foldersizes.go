package disk

import (
	"os"
	"path/filepath"
	"time"
)

const (
	// listAfter is the time for which a list of all folders stays valid, except for
	// folders that this process changes. Without it, opening a part would look at the
	// folder of every identity.
	listAfter = time.Second
	// measureAfter is the time for which the size of a folder stays valid. It ends early if
	// this process changes the folder, or if a list shows that another process added or
	// removed a name. Without it, each list would look at every file of every identity.
	measureAfter = 10 * time.Second
)

// folderSizes is a cache of the number of bytes in each folder of a store. It is guarded by
// Store.mu, so no part can be opened while a folder is measured for another.
type folderSizes struct {
	path string // the store's folder
	walk func(folder string) ([]storedFile, error)

	known  map[string]folderSize // by folder
	stale  map[string]bool       // folders changed by this process since they were measured
	listed time.Time             // when the folders were last listed
}

// A folderSize is a measured folder size.
type folderSize struct {
	bytes    int64
	modified time.Time // the folder's modification time, which changes when a name is added or removed
	at       time.Time // when the folder was measured
}

// changed records that this process changes the content of a folder. bytesExcept then
// measures the folder again.
func (s *folderSizes) changed(folder string) {
	delete(s.known, folder)
	s.stale[folder] = true
}

// bytesExcept returns the number of bytes stored in all folders except own.
func (s *folderSizes) bytesExcept(own string) (bytes int64, err error) {
	if time.Since(s.listed) < listAfter {
		err = s.refreshStale(own)
	} else {
		err = s.refreshAll(own)
	}
	if err != nil {
		return 0, err
	}
	for folder, size := range s.known {
		if folder != own {
			bytes += size.bytes
		}
	}
	return bytes, nil
}

// refreshStale measures the folders that this process changed, except own.
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

// refreshAll lists the store's folders and measures them all. It leaves own stale, and
// skips folders that do not belong to the store, such as lost+found.
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
	s.known = known
	s.stale = map[string]bool{own: true}
	s.listed = time.Now()
	return nil
}

// measure returns the size of a folder. ok is false if there is no such folder.
//
// If no valid size is known, measure walks the folder. The walk removes expired parts, and
// the folder itself if it is empty (Store.walkFolder).
func (s *folderSizes) measure(folder string) (size folderSize, ok bool, err error) {
	info, err := os.Lstat(folder)
	if err != nil || !info.IsDir() {
		return folderSize{}, false, ignoreMissing(err)
	}
	now := time.Now()
	size, ok = s.known[folder]
	if ok && size.modified.Equal(info.ModTime()) && now.Sub(size.at) < measureAfter {
		return size, true, nil
	}
	size = folderSize{modified: info.ModTime(), at: now}
	files, err := s.walk(folder)
	for _, f := range files {
		size.bytes += f.size
	}
	return size, err == nil, err
}
