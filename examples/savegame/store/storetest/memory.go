package storetest

import (
	"time"

	"github.com/quivernet/quiver/examples/savegame/store"
)

// Memory is a folder on a disk in memory, for concurrent use.
type Memory struct {
	*store.Folder
	disk *Forgetful
}

// NewMemory returns an empty one. Now is the clock of its objects, nil: time.Now.
func NewMemory(now func() time.Time) *Memory {
	disk := NewForgetful(nil) // which never forgets: nobody cuts the power
	disk.Now = now
	folder, err := store.OpenOn(disk)
	if err != nil {
		panic(err) // nothing of it can fail
	}
	return &Memory{folder, disk}
}

// Damage changes a byte of an object.
func (m *Memory) Damage(key string) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	_, _, n, _ := m.disk.find("objects/" + key)
	n.data[len(n.data)/2] ^= 1
}
