package storetest

import (
	"time"

	"github.com/quivernet/quiver/examples/savegame/store"
)

// Memory is a store in a folder on a disk in memory. It is safe for concurrent use.
type Memory struct {
	*store.Folder
	disk *Forgetful
}

// NewMemory returns an empty store. now is the clock of its objects; nil = time.Now.
func NewMemory(now func() time.Time) *Memory {
	disk := NewForgetful(nil) // which never forgets, because nobody cuts the power
	disk.Now = now
	folder, err := store.OpenOn(disk)
	if err != nil {
		panic(err) // nothing of this can fail
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
