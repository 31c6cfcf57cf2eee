package disk

import (
	"os"
	"path/filepath"
	"time"
)

const (
	// listValid is the time for which we trust a list of all folders, except for the folders that
	// we change ourselves. Without it, we'd have to look at every identity's folder whenever a part
	// is opened.
	listValid = time.Second
	// measureValid is the time for which we trust the size of a folder, unless we change the folder
	// ourselves, or a list shows that another process has added or removed a name. Without it, we'd
	// have to look at every file of every identity for each list.
	measureValid = 10 * time.Second
)

// A folderSizes caches the number of bytes in each folder of a store.
//
// It is guarded by Store.mu. While a folder is being measured for one part, no other part can
// therefore be opened.
type folderSizes struct {
	path string                                    // the store's folder
	walk func(folder string) ([]storedFile, error) // Store.walkFolder

	known  map[string]folderSize // keyed by folder
	stale  map[string]bool       // folders that this process has changed since they were measured
	listed time.Time             // when the folders were last listed
}

// A folderSize is the size of a folder when it was measured.
type folderSize struct {
	bytes    int64
	modified time.Time // the folder's own time, which adding or removing a name changes
	measured time.Time
}

// invalidate is called when this process changes the files in a folder. The folder is measured
// again when its size is next needed.
func (s *folderSizes) invalidate(folder string) {
	delete(s.known, folder)
	s.stale[folder] = true
}

// refresh measures the folders whose sizes can no longer be trusted, except own.
func (s *folderSizes) refresh(own string) error {
	if time.Since(s.listed) < listValid {
		return s.refreshStale(own)
	}
	return s.refreshAll(own)
}

// bytesExcept returns the number of bytes in all folders except own, as of the last refresh. own is
// never measured here, since the caller looks at each of its files anyway.
func (s *folderSizes) bytesExcept(own string) (bytes int64) {
	for folder, size := range s.known {
		if folder != own {
			bytes += size.bytes
		}
	}
	return bytes
}

// refreshStale measures the folders that this process has changed, except own.
func (s *folderSizes) refreshStale(own string) error {
	for folder := range s.stale {
		if folder == own {
			continue
		}
		if err := s.measure(folder, s.known); err != nil {
			return err
		}
		delete(s.stale, folder)
	}
	return nil
}

// refreshAll lists the store's folders and measures all of them except own, which it leaves
// stale.
func (s *folderSizes) refreshAll(own string) error {
	folders, err := os.ReadDir(s.path)
	if err != nil {
		return err
	}
	known := make(map[string]folderSize, len(folders))
	for _, e := range folders {
		folder := filepath.Join(s.path, e.Name())
		isOurs := e.IsDir() && isHashName(e.Name()) // unlike lost+found
		if folder == own || !isOurs {
			continue
		}
		if err := s.measure(folder, known); err != nil {
			return err
		}
	}
	s.known = known
	s.stale = map[string]bool{own: true}
	s.listed = time.Now()
	return nil
}

// measure stores the size of a folder in sizes, if the folder exists. It looks at the folder's
// files unless their size in known can still be trusted.
func (s *folderSizes) measure(folder string, sizes map[string]folderSize) error {
	info, err := os.Lstat(folder)
	if err != nil || !info.IsDir() {
		return ignoreMissing(err)
	}
	now := time.Now()
	size, ok := s.known[folder]
	if ok && size.modified.Equal(info.ModTime()) && now.Sub(size.measured) < measureValid {
		sizes[folder] = size
		return nil
	}
	// The walk also removes expired parts, and the folder itself if it's empty.
	files, err := s.walk(folder)
	if err != nil {
		return err
	}
	size = folderSize{modified: info.ModTime(), measured: now}
	for _, f := range files {
		size.bytes += f.size
	}
	sizes[folder] = size
	return nil
}
