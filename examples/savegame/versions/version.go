package versions

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/examples/savegame/manifest"
)

// Kind is what a version is.
type Kind string

// A version is put, or says that the save is in the trash. One whose record cannot be read is there, and no more.
const (
	Stored  Kind = "put"
	Trash   Kind = "trash"
	Damaged Kind = "damaged"
)

// Version describes one version of a save. Its bounds are for who sends it: names have [MaxName] bytes.
type Version struct {
	Name    string          `json:"name" quiver:"max=79"`
	Number  int             `json:"number"` // from 1 on, growing; some in between may be gone
	Kind    Kind            `json:"kind" quiver:"max=16"`
	Base    int             `json:"base"`    // the number that the machine had seen; 0: none
	Content manifest.Digest `json:"content"` // of the manifest's bytes; zero of Trash
	Size    int64           `json:"size"`    // bytes of all files
	Files   int             `json:"files"`
	Time    time.Time       `json:"time"`
	Machine string          `json:"machine" quiver:"max=79"`
}

// Ref names a version for those who saw it. Numbers begin again after Erase, so the content belongs to it.
type Ref struct {
	Number  int
	Content manifest.Digest
}

// Ref returns how v is remembered.
func (v Version) Ref() Ref { return Ref{v.Number, v.Content} }

// seen reports whether whoever saw r last has seen what v holds: r may be another version of that content, as before a Restore.
func (v Version) seen(r Ref) bool { return v.Kind == Stored && v.Content == r.Content }

// Errors of saves that are not there.
var (
	ErrNoSave    = errors.New("no such save")
	ErrNoVersion = errors.New("no such version")
	ErrTrash     = errors.New("it is in the trash")
	ErrDamaged   = errors.New("it is damaged")
)

// ErrConflict is what every [*Conflict] is.
var ErrConflict = errors.New("conflict")

// Conflict means that a put would replace a version that its machine has not seen.
type Conflict struct {
	Latest Version
	Seen   Ref
}

// Is implements what [errors.Is] asks for.
func (e *Conflict) Is(kind error) bool { return kind == ErrConflict }

func (e *Conflict) Error() string {
	if e.Latest.Kind == Damaged {
		return fmt.Sprintf("version %d of %q is damaged, so nobody knows what would be replaced", e.Latest.Number, e.Latest.Name)
	}
	seen := "never saw this save"
	if e.Seen.Number > 0 {
		seen = fmt.Sprintf("saw version %d last", e.Seen.Number)
	}
	return fmt.Sprintf("version %d of %q is newer: %s put it on %s, %d bytes; this machine %s", e.Latest.Number, e.Latest.Name,
		e.Latest.Machine, e.Latest.Time.Format("2006-01-02 15:04 MST"), e.Latest.Size, seen)
}

// record is the bytes of a version.
type record struct {
	Version
	Sum string `json:"sum"` // digest of the record's bytes without it
}

func (v Version) encode() []byte {
	r := record{Version: v}
	b, _ := json.Marshal(r) // never fails: there are only strings, numbers and a time
	r.Sum = manifest.Sum(b).String()
	b, _ = json.Marshal(r)
	return append(b, '\n')
}

// decode returns the version of that name and number whose record b is, or one of kind Damaged.
func decode(name string, number int, b []byte) Version {
	var r record
	if err := json.Unmarshal(b, &r); err == nil && r.Name == name && r.Number == number && string(r.encode()) == string(b) {
		return r.Version
	}
	return Version{Name: name, Number: number, Kind: Damaged}
}
