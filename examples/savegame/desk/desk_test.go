package desk

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/internal/testkit"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
	"github.com/quivernet/quiver/stream/pieces"
	"github.com/quivernet/quiver/stream/tree"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// host is a server of a test.
type host struct {
	t      testing.TB
	store  store.Store
	all    *versions.Versions
	users  *users.Users
	tokens string // the file
	server *Server
	config ClientConfig // of alice

	addr, fingerprint string // of the server, and of its certificate
}

// to connects to a server, from a socket unless that is nil.
func to(t testing.TB, addr, fingerprint string, socket net.PacketConn) func(context.Context, *rpc.World) (*rpc.Conn, error) {
	pin, err := cert.Pinned(fingerprint)
	require.NoError(t, err)
	return func(ctx context.Context, w *rpc.World) (*rpc.Conn, error) {
		if socket == nil {
			return rpc.Dial(ctx, addr, pin, w)
		}
		at, err := net.ResolveUDPAddr("udp", addr)
		require.NoError(t, err)
		return rpc.DialPacket(ctx, socket, at, pin, w)
	}
}

func newHost(t testing.TB, c versions.Config, wrap func(store.Store) store.Store) *host {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, socket.Close()) })
	return newHostOn(t, socket, c, wrap)
}

func newHostOn(t testing.TB, socket net.PacketConn, c versions.Config, wrap func(store.Store) store.Store) *host {
	h := &host{t: t, tokens: filepath.Join(t.TempDir(), "tokens")}
	folder, err := store.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, folder.Close()) })
	h.store = folder
	if wrap != nil {
		h.store = wrap(folder)
	}
	c.Reserve = -1
	h.all, err = versions.Open(t.Context(), h.store, c)
	require.NoError(t, err)
	h.config.Token, err = users.Add(h.tokens, "alice")
	require.NoError(t, err)
	h.users, err = users.Open(h.tokens)
	require.NoError(t, err)
	h.server, err = NewServer(ServerConfig{Versions: h.all, Users: h.users})
	require.NoError(t, err)
	h.listen(socket)
	return h
}

func (h *host) listen(socket net.PacketConn) {
	certificate, err := cert.Development()
	require.NoError(h.t, err)
	listener, err := rpc.ListenPacket(socket, &tls.Config{Certificates: []tls.Certificate{certificate}}, h.server.World())
	require.NoError(h.t, err)
	ended := make(chan error, 1)
	go func() { ended <- h.server.World().Run(context.Background()) }()
	h.t.Cleanup(func() {
		require.NoError(h.t, h.server.Close(context.Background(), "the test is over"))
		require.NoError(h.t, listener.Close())
		require.ErrorIs(h.t, <-ended, rpc.ErrClosed)
	})
	h.addr, h.fingerprint = listener.Addr().String(), cert.Fingerprint(certificate)
	h.config.Connect = to(h.t, h.addr, h.fingerprint, nil)
}

func (h *host) dial() *Client {
	c, err := Dial(h.t.Context(), h.config)
	require.NoError(h.t, err)
	h.t.Cleanup(c.Close)
	return c
}

// persist does something that may have to be done again over a new connection.
func (h *host) persist(c **Client, do func() error) (err error) {
	for {
		if *c == nil {
			*c, err = Dial(h.t.Context(), h.config)
		}
		if err == nil {
			err = do()
		}
		if !Transient(err) {
			return err
		}
		if *c != nil {
			(*c).Close()
			*c = nil
		}
	}
}

func noise(seed uint64, size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// put puts a folder with one file.
func put(t testing.TB, c *Client, o versions.Request, content []byte) (Stored, error) {
	dir := filepath.Join(t.TempDir(), "world")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	path := filepath.Join(dir, "level")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	for _, p := range []string{path, dir} { // a manifest has times, too
		require.NoError(t, os.Chtimes(p, time.Time{}, time.Unix(1e9, 0)))
	}
	src, err := tree.Scan(t.Context(), []string{dir}, tree.ScanOptions{})
	require.NoError(t, err)
	defer src.Close()
	if o.Name == "" {
		o.Name = "world"
	}
	if o.Machine == "" {
		o.Machine = "pc"
	}
	return c.Put(t.Context(), src, o)
}

// get gets a version into a new folder and returns its one file.
func get(t testing.TB, c *Client, name string, version int) []byte {
	target := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, c.Get(t.Context(), name, version, func(d *Download) error {
		r, err := tree.NewRestore(t.Context(), d.Manifest, target, tree.RestoreOptions{})
		require.NoError(t, err)
		require.NoError(t, d.Fetch(r.Lacks(), r.Put))
		return r.Commit(t.Context())
	}))
	b, err := os.ReadFile(filepath.Join(target, "level"))
	require.NoError(t, err)
	return b
}

func TestPutAndGet(t *testing.T) {
	for _, quic := range []bool{false, true} {
		for _, backend := range []stream.Backend{stream.Window{}, stream.Slices{}} {
			t.Run(fmt.Sprintf("quic %v %T", quic, backend), func(t *testing.T) {
				h := newHost(t, versions.Config{}, nil)
				h.config.QUIC, h.config.Backend = quic, backend
				c, seed := h.dial(), testkit.Seed(t)
				first := noise(seed, 3<<20)
				s, err := put(t, c, versions.Request{}, first)
				require.NoError(t, err)
				require.Equal(t, 1, s.Version.Number)
				require.Equal(t, s.Chunks, s.Sent)
				second := append([]byte("in front"), first...)
				s2, err := put(t, c, versions.Request{Seen: s.Version.Ref()}, second)
				require.NoError(t, err)
				require.Equal(t, 2, s2.Version.Number)
				require.Less(t, s2.Sent, s2.Chunks*2/3) // cuts meet again within 1.1 MiB
				require.True(t, bytes.Equal(second, get(t, c, "world", 0)))
				require.True(t, bytes.Equal(first, get(t, c, "world", 1)))
				again, err := put(t, c, versions.Request{Seen: s2.Version.Ref()}, second)
				require.NoError(t, err)
				require.Equal(t, s2.Version.Number, again.Version.Number)
				require.Zero(t, again.Sent)
				list, err := c.List(t.Context())
				require.NoError(t, err)
				require.Len(t, list, 1)
				history, err := c.History(t.Context(), "world")
				require.NoError(t, err)
				require.Len(t, history, 2)
			})
		}
	}
}

func TestOfNothing(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	c := h.dial()
	_, err := put(t, c, versions.Request{}, nil)
	require.NoError(t, err)
	require.Empty(t, get(t, c, "world", 0))
	list, err := h.dial().List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestConflictAndEdits(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	c := h.dial()
	s, err := put(t, c, versions.Request{}, []byte("one"))
	require.NoError(t, err)
	_, err = put(t, c, versions.Request{Machine: "laptop"}, []byte("two"))
	require.ErrorIs(t, err, versions.ErrConflict)
	require.EqualError(t, err, (&versions.Conflict{Latest: s.Version}).Error(), "it says who, when and how large")
	both, err := put(t, c, versions.Request{Machine: "laptop", Mode: versions.KeepBoth}, []byte("two"))
	require.NoError(t, err)
	require.Contains(t, both.Version.Name, "conflict laptop")
	forced, err := put(t, c, versions.Request{Machine: "laptop", Mode: versions.Force}, []byte("three"))
	require.NoError(t, err)
	require.Equal(t, 2, forced.Version.Number)
	restored, err := Restore.Ask(t.Context(), c.Desk(), Edit{Name: "world", Version: 1, Machine: "pc"})
	require.NoError(t, err)
	require.Equal(t, 3, restored.Version.Number)
	require.Equal(t, "one", string(get(t, c, "world", 0)))
	_, err = Erase.Ask(t.Context(), c.Desk(), Edit{Name: "world", Machine: "pc", Seen: s.Version.Ref()})
	require.ErrorIs(t, err, versions.ErrConflict)
	require.EqualError(t, err, (&versions.Conflict{Latest: forced.Version, Seen: s.Version.Ref()}).Error())
	_, err = Remove.Ask(t.Context(), c.Desk(), Edit{Name: "world", Machine: "pc", Seen: restored.Version.Ref()})
	require.NoError(t, err)
	err = c.Get(t.Context(), "world", 0, nil)
	require.ErrorIs(t, err, versions.ErrTrash)
	_, err = Erase.Ask(t.Context(), c.Desk(), Edit{Name: "world", Machine: "pc"})
	require.NoError(t, err)
	err = c.Get(t.Context(), "world", 0, nil)
	require.ErrorIs(t, err, versions.ErrNoSave)
	require.False(t, Transient(err))
	_, err = put(t, c, versions.Request{Name: ".."}, nil)
	require.ErrorIs(t, err, users.ErrName)
}

func TestQuota(t *testing.T) {
	c := newHost(t, versions.Config{Quota: 1 << 20}, nil).dial()
	_, err := put(t, c, versions.Request{}, noise(1, 2<<20))
	require.ErrorIs(t, err, ErrFull)
	require.ErrorContains(t, err, "the limit is 1.0 MB")
	_, err = put(t, c, versions.Request{}, noise(1, 1<<19))
	require.NoError(t, err)
}

func TestUsersAreApart(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	content := noise(1, 1<<20)
	_, err := put(t, h.dial(), versions.Request{}, content)
	require.NoError(t, err)
	h.config.Token, err = users.Add(h.tokens, "bob")
	require.NoError(t, err)
	bob := h.dial()
	list, err := bob.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, list)
	s, err := put(t, bob, versions.Request{}, content)
	require.NoError(t, err)
	require.Equal(t, s.Chunks, s.Sent) // what bob cannot prove to have, bob sends
}

func TestLoginByCode(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	code, err := Invite.Ask(t.Context(), h.dial().Desk(), rpc.None{})
	require.NoError(t, err)
	h.config.Token = users.ByCode(code, newToken(), "pc")
	for range 2 {
		user, err := User.Ask(t.Context(), h.dial().Desk(), rpc.None{})
		require.NoError(t, err)
		require.Equal(t, "alice", user)
	}
	h.config.Token = strings.Split(h.config.Token, "\n")[1]
	_, err = h.dial().List(t.Context())
	require.NoError(t, err)
	h.requireRefused(users.ByCode(code, newToken(), "pc"), users.ErrCode)
	h.requireRefused("", users.ErrToken)
}

func newToken() string { return fmt.Sprintf("%032x", rand.Uint64()) }

func (h *host) requireRefused(token string, reason error) {
	h.t.Helper()
	config := h.config
	config.Token = token
	_, err := Dial(h.t.Context(), config)
	var closed *rpc.CloseError
	require.ErrorAs(h.t, err, &closed)
	require.Equal(h.t, rpc.PreLoginFailure, closed.Code)
	require.Equal(h.t, reason.Error(), closed.Reason)
	require.False(h.t, Transient(err))
}

// Wrong codes are wrong logins, which package rpc lets nobody try without limit.
func TestCodesAreNotGuessed(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	require.NoError(t, os.Remove(h.tokens))
	for range 8 {
		h.requireRefused(users.ByCode("ABCD-EFGH-IJKL", newToken(), "pc"), users.ErrCode)
	}
	h.config.Token = users.ByCode("ABCD-EFGH-IJKL", newToken(), "pc")
	_, err := Dial(t.Context(), h.config)
	require.ErrorContains(t, err, "too many")
}

func TestRevokedToken(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { h.users.Watch(ctx, h.server.World(), Revoked, 10*time.Millisecond, nil) })
	defer watching.Wait()
	defer stop()
	c := h.dial()
	_, err := users.Revoke(h.tokens, "alice", "")
	require.NoError(t, err)
	<-c.Conn().Done()
	var closed *rpc.CloseError
	require.ErrorAs(t, c.Conn().Err(), &closed)
	require.Equal(t, Revoked, closed.Code)
	require.False(t, Transient(closed))
	_, err = Dial(t.Context(), h.config)
	require.ErrorContains(t, err, "unknown token")
}

// A slow is a store whose gets and puts of chunks wait.
type slow struct {
	store.Store
	entered chan struct{}
	goOn    chan struct{}
}

func (s *slow) Put(ctx context.Context, key string, data []byte) error {
	select {
	case s.entered <- struct{}{}:
	default:
	}
	<-s.goOn
	return s.Store.Put(ctx, key, data)
}

func (s *slow) Start(ctx context.Context, key string, data []byte) (wait func() error, err error) {
	return func() error { return nil }, s.Put(ctx, key, data)
}

func TestDrain(t *testing.T) {
	s := &slow{entered: make(chan struct{}, 1), goOn: make(chan struct{})}
	h := newHost(t, versions.Config{}, func(inner store.Store) store.Store { s.Store = inner; return s })
	c := h.dial()
	putting := make(chan error, 1)
	go func() {
		_, err := put(t, c, versions.Request{}, noise(1, 1<<18))
		putting <- err
	}()
	<-s.entered
	drained := make(chan struct{})
	go func() {
		h.server.Drain(t.Context())
		close(drained)
	}()
	require.Eventually(t, func() bool {
		err := c.Get(t.Context(), "world", 0, nil)
		return errors.Is(err, ErrStopping) && Transient(err)
	}, time.Minute, time.Millisecond)
	_, err := Dial(t.Context(), h.config)
	require.ErrorContains(t, err, ErrStopping.Error())
	require.True(t, Transient(err))
	close(s.goOn)
	require.NoError(t, <-putting)
	<-drained
}

// TestInterruptedPut: what has arrived before is not sent again, and nothing
// that was abandoned keeps running.
func TestInterruptedPut(t *testing.T) {
	s := &slow{entered: make(chan struct{}, 1), goOn: make(chan struct{})}
	h := newHost(t, versions.Config{}, func(inner store.Store) store.Store { s.Store = inner; return s })
	content := noise(testkit.Seed(t), 8<<20)
	first := h.dial()
	putting := make(chan error, 1)
	go func() {
		_, err := put(t, first, versions.Request{}, content)
		putting <- err
	}()
	<-s.entered
	first.Close()
	close(s.goOn)
	require.Error(t, <-putting)
	h.server.Drain(t.Context())
	h.server.draining.Store(false)
	again, err := put(t, h.dial(), versions.Request{}, content)
	require.NoError(t, err)
	require.Less(t, again.Sent, again.Chunks)
}

// framed returns what a talk sends for a chunk.
func framed(packed []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(packed))), packed...)
}

// TestLies: a client that does not keep the order of requests, or sends what it was not asked for.
func TestLies(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	c := h.dial()
	lie := func(n number, b []byte) *asking[Made] {
		q := startAsking(t.Context(), c, askPut, n, putArgs{n, versions.Request{Name: "x", Machine: "m", Content: cdc.Sum(b)}})
		_ = q.SendBlob(q.ctx, pieces.Manifest, b) // the refusal may come before the news that all of it has arrived, and ends it
		return q
	}
	t.Log("# no manifest")
	_, err := lie(8, []byte("no manifest")).wait(nil)
	require.ErrorIs(t, err, manifest.ErrManifest)
	t.Log("# chunks that are others than announced, one too few, one too many")
	m := &manifest.Manifest{Entries: []manifest.Entry{{
		Path: manifest.Root, Kind: manifest.File, Mode: 0o600, Size: 3, Chunks: []cdc.Chunk{{Digest: cdc.Sum([]byte("abc")), Size: 3}},
	}}}
	abc, abd := cdc.Pack(nil, []byte("abc")), cdc.Pack(nil, []byte("abd"))
	for i, content := range [][]byte{framed(abd), {}, {0xff, 0xff, 0xff, 0xff, 0x7f}, framed(abc)[:2], append(framed(abc), 0)} {
		q := lie(number(20+i), m.Append(nil))
		bitmap, err := q.ReadBlob(q.ctx, "lacks", 1)
		require.NoError(t, err)
		require.Equal(t, []byte{1}, bitmap)
		_, err = talks.Start(q.Peer, bytes.NewReader(content), int64(len(content)), q.options("pieces")...)
		require.NoError(t, err)
		_, err = q.wait(nil)
		require.Error(t, err, i)
	}
	t.Log("# two streams where one is asked for, and a bitmap beyond the manifest")
	b := []byte("early")
	_, err = talks.Start(c.streams.Peer(c.conn), bytes.NewReader(b), int64(len(b)), stream.Name("40 manifest"))
	require.NoError(t, err)
	require.ErrorIs(t, talks.Send(t.Context(), c.streams.Peer(c.conn), bytes.NewReader(b), int64(len(b)), stream.Name("40 manifest")), stream.ErrRejected)
	_, err = put(t, c, versions.Request{}, []byte("abc"))
	require.NoError(t, err)
	get := startAsking(t.Context(), c, askGet, 41, getArgs{Number: 41, Name: "world"})
	_, err = get.ReadBlob(get.ctx, versionBlob, maxVersion)
	require.NoError(t, err)
	_, err = get.ReadBlob(get.ctx, pieces.Manifest, maxManifest)
	require.NoError(t, err)
	_, err = get.wait(get.SendBlob(get.ctx, "lacks", []byte{2}))
	require.ErrorIs(t, err, pieces.ErrViolation)
}

func TestChangedWhilePut(t *testing.T) {
	c := newHost(t, versions.Config{}, nil).dial()
	path := filepath.Join(t.TempDir(), "level")
	require.NoError(t, os.WriteFile(path, noise(1, 1<<20), 0o600))
	src, err := tree.Scan(t.Context(), []string{path}, tree.ScanOptions{})
	require.NoError(t, err)
	defer src.Close()
	require.NoError(t, os.WriteFile(path, noise(2, 1<<20), 0o600))
	_, err = c.Put(t.Context(), src, versions.Request{Name: "world", Machine: "pc"})
	require.ErrorIs(t, err, tree.ErrChanged)
	require.ErrorContains(t, err, path)
	_, err = put(t, c, versions.Request{}, noise(2, 1<<20)) // and nothing stands in the way
	require.NoError(t, err)
}

// A store that loses or damages a chunk is noticed by the next get, and
// repaired by the next put of the content.
func TestLostAndDamagedChunks(t *testing.T) {
	for name, spoil := range map[string]func(s store.Store, key string) error{
		"lost": func(s store.Store, key string) error { return s.Delete(t.Context(), key) },
		"damaged": func(s store.Store, key string) error {
			return errors.Join(s.Delete(t.Context(), key), s.Put(t.Context(), key, []byte("other")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, versions.Config{}, nil)
			c, content := h.dial(), noise(testkit.Seed(t), 1<<20)
			s, err := put(t, c, versions.Request{}, content)
			require.NoError(t, err)
			for o, err := range h.store.List(t.Context(), "users/_alice/chunks") {
				require.NoError(t, err)
				require.NoError(t, spoil(h.store, o.Key))
				break
			}
			err = c.Get(t.Context(), "world", 0, func(d *Download) error {
				var all []int
				for i := range d.Manifest.Chunks() {
					all = append(all, i)
				}
				return d.Fetch(all, func(cdc.Chunk, []byte) error { return nil })
			})
			require.ErrorIs(t, err, versions.ErrDamaged)
			again, err := put(t, c, versions.Request{Seen: s.Version.Ref()}, content)
			require.NoError(t, err)
			require.Equal(t, 1, again.Sent)
			require.Equal(t, content, get(t, c, "world", 0))
			report, err := h.all.Check(t.Context(), false)
			require.NoError(t, err)
			require.Empty(t, report.Findings)
		})
	}
}

const crowd = 50

// TestCrowd: fifty clients with one token put ten saves each. As the program
// does they connect again if the connection is lost: if fifty ends share two
// cores with other work, one may be silent for longer than the other waits.
func TestCrowd(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	clients := make([]*Client, crowd)
	for i := range clients {
		require.NoError(t, h.persist(&clients[i], func() error { return nil }))
	}
	var group sync.WaitGroup
	errs := make([]error, crowd)
	shared := noise(testkit.Seed(t), 300_000)
	for i, c := range clients {
		group.Go(func() {
			for n := range 10 {
				errs[i] = errors.Join(errs[i], h.persist(&c, func() error {
					_, err := put(t, c, versions.Request{Name: fmt.Sprint("save ", i, " ", n)}, append(noise(uint64(10*i+n), 5000), shared...))
					return err
				}))
			}
			if c != nil {
				c.Close()
			}
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	report, err := h.all.Check(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, 10*crowd, report.Versions)
	require.Empty(t, report.Findings)
}

// TestTransient: what fails at this end does so again, and is not the connection's fault.
func TestTransient(t *testing.T) {
	for _, err := range []error{syscall.ENOENT, syscall.ENOSPC, &os.PathError{Op: "lstat", Path: "x", Err: syscall.ENOTDIR}, &net.DNSError{IsNotFound: true}, context.Canceled} {
		require.False(t, Transient(fmt.Errorf("wrapped: %w", err)), err)
	}
	for _, err := range []error{ErrBusy, &rpc.CloseError{Code: rpc.ConnectionLost}, &net.OpError{Op: "dial", Err: syscall.ENETUNREACH}, &quic.IdleTimeoutError{}} {
		require.True(t, Transient(fmt.Errorf("wrapped: %w", err)), err)
	}
}

// A user who announces manifests, or requests them, and stalls delays nobody else.
func TestOneUserTakesNotAllMemory(t *testing.T) {
	h := newHost(t, versions.Config{}, nil)
	alice := h.dial()
	_, err := put(t, alice, versions.Request{}, noise(2, 1000))
	require.NoError(t, err)
	ask := func(n number) *asking[Made] {
		q := startAsking(t.Context(), alice, askPut, n, putArgs{n, versions.Request{Name: fmt.Sprint(n), Machine: "m"}})
		unread, end := io.Pipe() // of which nothing comes
		t.Cleanup(func() { _ = end.Close() })
		_, err := talks.Start(q.Peer, unread, maxManifest, q.options(pieces.Manifest)...)
		require.NoError(t, err)
		return q
	}
	first, second := ask(1), ask(2)
	select { // whichever came later
	case <-first.ended:
		require.ErrorIs(t, first.err, ErrBusy)
	case <-second.ended:
		require.ErrorIs(t, second.err, ErrBusy)
	}
	err = alice.Get(t.Context(), "world", 0, nil)
	require.ErrorIs(t, err, ErrBusy, "a get keeps a manifest too")
	h.config.Token, err = users.Add(h.tokens, "bob")
	require.NoError(t, err)
	_, err = put(t, h.dial(), versions.Request{}, noise(1, 1000))
	require.NoError(t, err)
}

// TestWhoLeavesIsNoError: the log of a server shows no errors for what clients interrupt.
func TestWhoLeavesIsNoError(t *testing.T) {
	var log bytes.Buffer
	k := &clerk{log: slog.New(slog.NewTextHandler(&log, nil)), share: &share{idle: rate.NewLimiter(rate.Inf, 0)}}
	for _, err := range []error{ErrStopping, stream.ErrCanceled, stream.ErrRejected, fmt.Errorf("manifest: %w", stream.ErrClosed), fmt.Errorf("a chunk: %w", io.ErrUnexpectedEOF)} {
		require.Error(t, k.refuse(t.Context(), "Put", err))
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	require.Error(t, k.refuse(left, "Put", io.ErrClosedPipe))
	require.NotContains(t, log.String(), "ERROR")
	require.Error(t, k.refuse(t.Context(), "Put", io.ErrClosedPipe))
	require.Contains(t, log.String(), "ERROR")
}
