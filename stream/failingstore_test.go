package stream

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var errDisk = errors.New("open /srv/secret/path: disk on fire")

// failingStore fails one call of all that a transfer makes, counted from 1, and
// knows how many parts and contents are open.
type failingStore struct {
	*memoryStore
	calls, fails int
	failed       string // the call
	open         int
}

// call counts one call.
func (s *failingStore) call(name string) error {
	s.calls++
	if s.calls == s.fails {
		s.failed = name
		return errDisk
	}
	return nil
}

func (s *failingStore) Open(identity, key string, size int64) (Part, error) {
	if err := s.call("Open"); err != nil {
		return nil, err
	}
	p, err := s.memoryStore.Open(identity, key, size)
	if err != nil {
		return nil, err
	}
	s.open++
	return &failingPart{Part: p, store: s}, nil
}

func (s *failingStore) Lookup(identity, key string) (Content, error) {
	if err := s.call("Lookup"); err != nil {
		return nil, err
	}
	c, err := s.memoryStore.Lookup(identity, key)
	if err != nil {
		return nil, err
	}
	s.open++
	return &failingContent{Content: c, store: s}, nil
}

func (s *failingStore) Remove(identity, key string) error {
	return errors.Join(s.call("Remove"), s.memoryStore.Remove(identity, key))
}

// failingPart ends, as package disk's does, also when its end fails.
type failingPart struct {
	Part
	store *failingStore
	ended bool
}

func (p *failingPart) end() {
	if !p.ended {
		p.ended = true
		p.store.open--
	}
}

func (p *failingPart) Write(b []byte) (int, error) {
	if err := p.store.call("Write"); err != nil {
		n, _ := p.Part.Write(b[:len(b)/2])
		return n, err
	}
	return p.Part.Write(b)
}

func (p *failingPart) ReadAt(b []byte, off int64) (int, error) {
	if err := p.store.call("Part.ReadAt"); err != nil {
		return 0, err
	}
	return p.Part.ReadAt(b, off)
}

func (p *failingPart) Commit(d Digest) error {
	if err := p.store.call("Commit"); err != nil {
		return err
	}
	return p.Part.Commit(d)
}

func (p *failingPart) Close() error {
	p.end()
	return errors.Join(p.store.call("Part.Close"), p.Part.Close())
}

func (p *failingPart) Delete() error {
	p.end()
	return errors.Join(p.store.call("Delete"), p.Part.Delete())
}

type failingContent struct {
	Content
	store *failingStore
}

func (c *failingContent) ReadAt(b []byte, off int64) (int, error) {
	if err := c.store.call("Content.ReadAt"); err != nil {
		return 0, err
	}
	return c.Content.ReadAt(b, off)
}

func (c *failingContent) Close() error {
	c.store.open--
	return errors.Join(c.store.call("Content.Close"), c.Content.Close())
}

// TestStoreFailsAtEachCall: whichever call of a Store fails, and whatever was stored before,
// only its transfer fails, with a text that reveals nothing of the receiver's disk to the
// sender. Nothing stays open or charged, verified content stays, and the next try succeeds.
func TestStoreFailsAtEachCall(t *testing.T) {
	good := content(100_000)
	stored := map[string]memoryFile{
		"nothing":       {},
		"a part":        {data: good[:70_000]},
		"a wrong part":  {data: content(70_001)[:70_000]},
		"the content":   {data: good, digest: SHA256.Of(good)},
		"other content": {data: good[:5], digest: SHA256.Of(good[:5])},
		"a decayed one": {data: content(100_001)[:100_000], digest: SHA256.Of(good)},
	}
	for name, before := range stored {
		seen := make(map[string]bool)
		for fails := 1; !seen[""]; fails++ { // until the transfer makes fewer calls than that
			seen[failOneCall(t, name, before, good, fails)] = true
		}
		t.Log(name, seen)
	}
}

// failOneCall transfers good to where before is stored, under a name for errors, and has
// one call of the store fail. It returns which one, "" when the transfer made fewer calls.
func failOneCall(t *testing.T, name string, before memoryFile, good []byte, fails int) (failed string) {
	inNetwork(t, setup{}, func(n *network) {
		store := &failingStore{memoryStore: newMemoryStore(), fails: fails}
		n.client.streams.config.Store = store
		if len(before.data) > 0 {
			store.put("k", before)
		}
		got := collect(n.client.streams)
		err := n.mustStart(n.server.peer, good, Key("k"), Hash(SHA256)).Wait(n.ctx)
		r := <-got
		time.Sleep(time.Second)
		synctest.Wait() // nobody uses the store now
		failed = store.failed
		where := fmt.Sprintf("%s, %s failed: %v, %v", name, failed, err, r.err)
		require.Zero(n, store.open, where)
		if err != nil {
			require.NotContains(n, err.Error(), "secret", where)
		} else {
			require.NoError(n, r.err, where)
			require.Equal(n, good, r.data, where)
		}
		if before.digest == SHA256.Of(before.data) && before.data != nil {
			require.NotEmpty(n, store.contents, where)
		}
		sums, _ := n.client.peer.account.Charge()
		require.Zero(n, sums, where)

		store.fails = 0
		n.comesThrough(got, good, where)
		require.Zero(n, store.open, where)
	})
	return failed
}

// comesThrough sends good under its key until it arrives, at most three times:
// one of them finds what is wrong in the store.
func (n *network) comesThrough(got <-chan received, good []byte, where string) {
	for try := 1; ; try++ {
		err := n.mustStart(n.server.peer, good, Key("k"), Hash(SHA256)).Wait(n.ctx)
		r := <-got
		if err == nil {
			synctest.Wait()
			require.Equal(n, good, r.data, where)
			return
		}
		require.Less(n, try, 3, where)
	}
}

// A forgetfulPart loses the bytes after limit, and doesn't say so.
type forgetfulPart struct {
	Part
	limit  int64
	admits bool // Write returns how much it kept
}

func (p *forgetfulPart) Offset() int64 { return min(p.Part.Offset(), p.limit) }

func (p *forgetfulPart) Write(b []byte) (int, error) {
	kept := min(int64(len(b)), p.limit-p.Part.Offset())
	if _, err := p.Part.Write(b[:max(kept, 0)]); err != nil || p.admits {
		return int(kept), err
	}
	return len(b), nil
}

// forgetfulStore is a store of forgetfulParts.
type forgetfulStore struct {
	*memoryStore
	limit  int64
	admits bool
}

func (s forgetfulStore) Open(identity, key string, size int64) (Part, error) {
	p, err := s.memoryStore.Open(identity, key, size)
	return &forgetfulPart{p, s.limit, s.admits}, err
}

// TestStoreForgets: a Store whose part has fewer bytes than were written to it fails its transfer,
// and completes nothing. The next Write once panicked, or left a gap in content that was completed.
func TestStoreForgets(t *testing.T) {
	for name, store := range map[string]forgetfulStore{
		"before a Write": {limit: 40_000},
		"before Commit":  {limit: 99_999},
		"in a Write":     {limit: 40_000, admits: true},
		"in the last":    {limit: 99_999, admits: true},
	} {
		t.Run(name, func(t *testing.T) {
			store.memoryStore = newMemoryStore()
			inNetwork(t, setup{client: Config{Store: store}}, func(n *network) {
				got := collect(n.client.streams)
				err := n.mustStart(n.server.peer, content(100_000), Key("k")).Wait(n.ctx)
				require.ErrorIs(n, err, ErrRejected)
				require.ErrorContains(n, err, "receiver could not store the content")
				require.ErrorContains(n, (<-got).err, "were written")
				require.Empty(n, store.contents)
			})
		})
	}
}
