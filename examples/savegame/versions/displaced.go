package versions

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// Displaced is versions of a save that were deleted to make room for a put or a Restore.
type Displaced struct {
	Name        string `quiver:"max=79"`
	First, Last int    // the lowest and the highest number
	Versions    int
	Trash       bool // the save was in the trash, and is gone altogether
}

// String names them for a person.
func (d Displaced) String() string {
	switch {
	case d.Trash:
		return fmt.Sprintf("%s, which was in the trash, with %s", d.Name, english.Plural(d.Versions, "version", ""))
	case d.Versions == 1:
		return fmt.Sprintf("%s@%d", d.Name, d.First)
	}
	return fmt.Sprintf("%d versions from %s@%d to @%d", d.Versions, d.Name, d.First, d.Last)
}

// mostDisplaced is how many are remembered for a save: a client that forces its puts never says that it has heard of them.
const mostDisplaced = 1024

// mostDisplacedNames is of how many saves they are remembered: names come and go.
const mostDisplacedNames = 100

// displaced is what made room for a save.
type displaced struct {
	versions []Version // the oldest first
	told     bool      // by Displaced, of all
}

// noteDisplaced notes that versions are being deleted to make room for a save. The caller holds records.
func (u *User) noteDisplaced(name string, versions []Version) {
	if u.displaced[name] == nil {
		if len(u.displaced) >= mostDisplacedNames {
			clear(u.displaced)
		}
		u.displaced[name] = &displaced{}
	}
	d := u.displaced[name]
	d.told = false
	for _, v := range versions {
		if !slices.Contains(d.versions, v) { // it failed once
			d.versions = append(d.versions, v)
		}
	}
	d.versions = d.versions[max(0, len(d.versions)-mostDisplaced):]
}

// forgetTold forgets what made room for a save, if its client has heard of it: who has seen the newest version got the answer.
func (u *User) forgetTold(r Request) {
	if d := u.displaced[r.Name]; d != nil && d.told && u.newest(r.Name).seen(r.Seen) {
		delete(u.displaced, r.Name)
	}
}

// Displaced returns, by name, what was deleted to make room for a save: by the put that has just ended, and by those before it whose
// answer nobody may have heard, since the server began.
func (u *User) Displaced(name string) (list []Displaced) {
	u.records.Lock()
	defer u.records.Unlock()
	if u.displaced[name] == nil {
		return nil
	}
	u.displaced[name].told = true
	for _, v := range u.displaced[name].versions {
		if slices.Contains(u.names[v.Name], v) {
			continue // the store failed to delete it
		}
		at, found := slices.BinarySearchFunc(list, v, func(d Displaced, v Version) int { return strings.Compare(d.Name, v.Name) })
		if !found {
			list = slices.Insert(list, at, Displaced{Name: v.Name, First: v.Number})
		}
		d := &list[at]
		if d.Last, d.Trash = v.Number, v.Kind == Trash; !d.Trash {
			d.Versions++
		}
	}
	return list
}
