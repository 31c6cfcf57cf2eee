package disk

import (
	"os"
	"path/filepath"
	"time"
)

const (
	// listAgain is how long a list of all folders stays valid, but for those that this process changes. Without it each part would cost as
	// many looks as there are identities.
	listAgain = time.Second
	// lookAgain is how long a look into a folder stays valid if this process has changed nothing in it, and no list finds that another
	// process has changed a name. Without it an identity with a thousand files would cost each list the sizes of a thousand files.
	lookAgain = 10 * time.Second
)

// looks knows how many bytes the folders of a store hold. Store.mu guards it, so opening a part waits for a look of another.
type looks struct {
	path string // of the store
	walk func(folder string) ([]storedFile, error)

	looked map[string]look // by folder
	stale  map[string]bool // folders that this process has changed since it looked
	listed time.Time       // when it looked for folders
}

// look is what a look into a folder found.
type look struct {
	bytes    int64
	modified time.Time // when the folder was last changed
	at       time.Time
}

// changed notes that this process changes what is in a folder, so that the next question looks into it again.
func (l *looks) changed(folder string) {
	delete(l.looked, folder)
	l.stale[folder] = true
}

// bytesBeside returns how many bytes are stored in all folders but own.
func (l *looks) bytesBeside(own string) (bytes int64, err error) {
	refresh := l.lookAtAll
	if since := time.Since(l.listed); since >= 0 && since < listAgain {
		refresh = l.lookAtStale
	}
	if err := refresh(own); err != nil {
		return 0, err
	}
	for folder, found := range l.looked {
		if folder != own {
			bytes += found.bytes
		}
	}
	return bytes, nil
}

// lookAtStale looks into the folders but own that this process has changed.
func (l *looks) lookAtStale(own string) error {
	for folder := range l.stale {
		if folder == own {
			continue
		}
		found, ok, err := l.look(folder)
		if err != nil {
			return err
		}
		if ok {
			l.looked[folder] = found
		}
		delete(l.stale, folder)
	}
	return nil
}

// lookAtAll looks into all folders but own, which stays stale. A look removes expired parts and an empty folder (see Store.walkFolder).
func (l *looks) lookAtAll(own string) error {
	folders, err := os.ReadDir(l.path)
	if err != nil {
		return err
	}
	looked := make(map[string]look, len(folders))
	for _, e := range folders {
		folder := filepath.Join(l.path, e.Name())
		if folder == own || !e.IsDir() {
			continue
		}
		found, ok, err := l.look(folder)
		if err != nil {
			return err
		}
		if ok {
			looked[folder] = found
		}
	}
	l.looked, l.stale, l.listed = looked, map[string]bool{own: true}, time.Now()
	return nil
}

// look looks into a folder, unless the last look is still valid; ok is false when there is no such folder.
func (l *looks) look(folder string) (found look, ok bool, err error) {
	info, err := os.Lstat(folder)
	if err != nil || !info.IsDir() {
		return look{}, false, ignoreMissing(err)
	}
	now := time.Now()
	if found, ok = l.looked[folder]; ok && found.modified.Equal(info.ModTime()) && now.Sub(found.at) < lookAgain {
		return found, true, nil
	}
	found = look{modified: info.ModTime(), at: now}
	files, err := l.walk(folder)
	for _, f := range files {
		found.bytes += f.size
	}
	return found, err == nil, err
}
