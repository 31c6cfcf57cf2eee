package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quivernet/quiver/examples/savegame/flock"
	"github.com/quivernet/quiver/examples/savegame/manifest"
	"github.com/quivernet/quiver/examples/savegame/versions"
)

// profile is what a login leaves: where the server is, and who this machine is there.
type profile struct {
	home string // folder of what is kept between commands

	Server      string `json:"server"`
	Fingerprint string `json:"fingerprint"` // of the server's certificate, in hex
	User        string `json:"user"`
	Token       string `json:"token"`
	Machine     string `json:"machine"`
}

// openProfile reads the profile of a name, empty where nobody has logged in. Home is a folder, empty for the usual one.
func openProfile(home, name string) (p profile, err error) {
	if home == "" {
		if home, err = os.UserConfigDir(); err != nil {
			return p, fmt.Errorf("no folder for the login: %w; set $SAVEGAME_HOME", err)
		}
		home = filepath.Join(home, "savegame")
	}
	if name != "" {
		home, err = filepath.Join(home, name), versions.CheckName(name)
	}
	p.home, p.Machine = home, machineName()
	if err == nil {
		err = os.MkdirAll(p.home, 0o700)
	}
	if err == nil {
		err = readJSON(p.file(), &p)
	}
	return p, err
}

func (p *profile) file() string { return filepath.Join(p.home, "profile.json") }

// machineName returns this machine's name as versions have it.
func machineName() string {
	if host, err := os.Hostname(); err == nil && versions.CheckName(host) == nil {
		return host
	}
	return "machine"
}

// sighting remembers what a place of this machine held when it was equal to a version. Each place has its own, so that a
// look at a version from another folder is no consent to lose it from this one.
type sighting struct {
	Ref  versions.Ref
	Data manifest.Digest // what dataOf says of it
	Time int64           // of the save itself, as its manifest has it

	Exclude []string `json:",omitempty"` // what puts of it leave out
}

// dataOf names what is in a save apart from modes and times, which do not survive every file system.
func dataOf(m *manifest.Manifest) manifest.Digest {
	bare := manifest.Manifest{Entries: slices.Clone(m.Entries)}
	for i := range bare.Entries {
		bare.Entries[i].Mode, bare.Entries[i].Time = 0, 0
	}
	return bare.Digest()
}

func (p *profile) seenFile() string { return filepath.Join(p.home, "seen.json") }

// key is under what the sightings of a save are kept, or that of a place, which is the paths that were put or the one that was got.
func (p *profile) key(name string, place ...string) string {
	key, paths := p.Fingerprint[:min(16, len(p.Fingerprint))]+"/"+name+"\n", make([]string, len(place))
	for i, path := range place {
		paths[i], _ = filepath.Abs(path) // where it fails nothing was read or written
	}
	for _, path := range slices.Sorted(slices.Values(paths)) { // they are one place in whatever order they are said
		key += path + "\n"
	}
	return key
}

// seen returns all sightings, of saves at any server.
func (p *profile) seen() (map[string]sighting, error) {
	sightings := make(map[string]sighting)
	return sightings, readJSON(p.seenFile(), &sightings)
}

// seenAt returns what a place held last of a save.
func (p *profile) seenAt(name string, place ...string) (sighting, error) {
	sightings, err := p.seen()
	return sightings[p.key(name, place...)], err
}

// seenLast returns the newest version of a save that any place held.
func (p *profile) seenLast(name string) (last versions.Ref, err error) {
	sightings, err := p.seen()
	for key, s := range sightings {
		if strings.HasPrefix(key, p.key(name)) && s.Ref.Number > last.Number {
			last = s.Ref
		}
	}
	return last, err
}

// remember notes that a place holds a version, and what its puts leave out, unless that is nil.
func (p *profile) remember(v versions.Version, m *manifest.Manifest, exclude []string, place ...string) error {
	return p.edit(func(sightings map[string]sighting) {
		key := p.key(v.Name, place...)
		if exclude == nil {
			exclude = sightings[key].Exclude
		}
		sightings[key] = sighting{v.Ref(), dataOf(m), m.Entries[0].Time, exclude}
	})
}

// rememberRestored notes, of no place, a version that this machine has made of an old one, if it might have deleted the save before that.
func (p *profile) rememberRestored(v, before versions.Version) error {
	seen, err := p.seenLast(v.Name)
	if err != nil || v.Base != before.Number || before.Kind != versions.Trash && before.Ref() != seen {
		return err
	}
	return p.edit(func(sightings map[string]sighting) { sightings[p.key(v.Name)] = sighting{Ref: v.Ref()} })
}

// forget notes that there is no version of a save any more: what places held of it no version has now.
func (p *profile) forget(name string) error {
	return p.edit(func(sightings map[string]sighting) {
		for key, s := range sightings {
			if strings.HasPrefix(key, p.key(name)) {
				sightings[key] = sighting{Exclude: s.Exclude}
			}
		}
	})
}

// edit changes the sightings, alone.
func (p *profile) edit(change func(sightings map[string]sighting)) error {
	lock, err := flock.Wait(p.seenFile()+".lock", 5*time.Second)
	if err != nil {
		return fmt.Errorf("it is done, but cannot be remembered here: %w", err)
	}
	defer lock.Close()
	sightings, err := p.seen()
	if err != nil {
		return err
	}
	change(sightings)
	return writeJSON(p.seenFile(), sightings)
}

// readJSON reads a file, which may be missing.
func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w; move it away, and log in again", path, err)
	}
	return nil
}

// writeJSON replaces a file, for its owner alone, in one step: after a crash it is what it was, or what it should be.
func writeJSON(path string, v any) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*") // of mode 0600
	if err != nil {
		return err
	}
	err = errors.Join(json.NewEncoder(f).Encode(v), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
