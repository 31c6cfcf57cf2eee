package vault

import "github.com/quivernet/quiver/stream"

// scoped is a store where identities stand for an identity and a file: two that fetch the same content into one folder
// do not take it from each other.
type scoped struct {
	stream.Store
	file string
}

func (s *scoped) scope(identity string) string { return s.file + "/" + identity }

func (s *scoped) Open(identity, key string, size int64) (stream.Part, error) {
	return s.Store.Open(s.scope(identity), key, size)
}

func (s *scoped) Lookup(identity, key string) (stream.Content, error) {
	return s.Store.Lookup(s.scope(identity), key)
}

func (s *scoped) Remove(identity, key string) error {
	return s.Store.Remove(s.scope(identity), key)
}
