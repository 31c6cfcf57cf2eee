package desk

import (
	"github.com/quivernet/quiver/internal/testkit"

	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/examples/savegame/vault"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
	"github.com/quivernet/quiver/stream"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

const testToken = "token-0123456789"

// pair is a server and a client of it.
type pair struct {
	server *Server
	config ClientConfig // of the client, and of more
	client *Client
	folder *vault.Folder
	dir    string // of the vault
}

func newPair(t *testing.T) *pair {
	t.Helper()
	return newPairWith(t, vault.Limits{MaxBytes: 1 << 20}, func(s stream.Store) stream.Store { return s })
}

// newPairWith puts something between the server and the vault's store.
func newPairWith(t *testing.T, limits vault.Limits, between func(stream.Store) stream.Store) *pair {
	t.Helper()
	dir := folder(t)
	v, err := vault.Open(dir, limits)
	require.NoError(t, err)
	tokens := filepath.Join(dir, "tokens.txt")
	require.NoError(t, os.WriteFile(tokens, []byte(testToken), 0o600))
	guard, err := vault.NewGuard(tokens)
	require.NoError(t, err)
	server, err := newServer(ServerConfig{Vault: v, Guard: guard}, between(v.Parts()))
	require.NoError(t, err)
	certificate, err := cert.Development()
	require.NoError(t, err)
	listener, err := rpc.Listen("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}}, server.World())
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- server.World().Run(context.Background()) }()
	config := ClientConfig{Server: listener.Addr().String(), TLS: cert.Pinned(cert.Fingerprint(certificate)), Token: testToken}
	client, err := Dial(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
		require.NoError(t, server.Close(context.Background(), "the test is over"))
		require.NoError(t, listener.Close())
		require.ErrorIs(t, <-ended, rpc.ErrClosed)
	})
	return &pair{server, config, client, v.Folder(vault.IdentityOf([]byte(testToken))), dir}
}

// folder makes a folder. A transfer that the end of its connection ended may be just about to put a part away there, so
// its removal is tried more than once.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "savegame-desk-")
	require.NoError(t, err)
	t.Cleanup(func() {
		err := os.RemoveAll(dir)
		for tries := 0; err != nil && tries < 100; tries++ {
			err = os.RemoveAll(dir)
		}
		require.NoError(t, err)
	})
	return dir
}

// beginPut asks for a put, and returns when the server wants the content. What the server answers comes later.
func (p *pair) beginPut(t *testing.T, name string, content []byte) (request uint32, ended <-chan error, err error) {
	t.Helper()
	request = p.client.number()
	send, end := make(chan struct{}, 1), make(chan error, 1)
	p.client.mu.Lock()
	p.client.sends[request] = send
	p.client.mu.Unlock()
	go func() {
		_, err := ask(t.Context(), p.client, askPut, putArgs{request, name, int64(len(content)), stream.BLAKE3.Of(content)})
		end <- err
	}()
	select {
	case err = <-end:
	case <-send:
	}
	return request, end, err
}

// stream sends bytes as the content of a request.
func (p *pair) stream(t *testing.T, request uint32, b []byte, opts ...stream.Option) error {
	t.Helper()
	return content.Send(t.Context(), p.client.streams.Peer(p.client.conn), bytes.NewReader(b), int64(len(b)),
		append([]stream.Option{stream.Hash(stream.BLAKE3), stream.Name(nameOf(request))}, opts...)...)
}

func requireNoSaves(t *testing.T, f *vault.Folder) {
	t.Helper()
	saves, err := f.List()
	require.NoError(t, err)
	require.Empty(t, saves)
}

func TestStreamThatNobodyAskedFor(t *testing.T) {
	p := newPair(t)
	require.ErrorIs(t, p.stream(t, 99, []byte("x")), stream.ErrRejected)
	require.ErrorIs(t, content.Send(t.Context(), p.client.streams.Peer(p.client.conn), bytes.NewReader(nil), 0, stream.Name("../x")), stream.ErrRejected)
	requireNoSaves(t, p.folder)
}

func TestStreamOfOtherContent(t *testing.T) {
	p := newPair(t)
	announced := []byte("what was announced")
	other := []byte("what comes instead")
	request, _, err := p.beginPut(t, "x", announced)
	require.NoError(t, err)
	require.ErrorIs(t, p.stream(t, request, other[:5], stream.Key(stream.BLAKE3.Of(announced).String())), stream.ErrRejected)
	require.ErrorIs(t, p.stream(t, request, other, stream.Key(stream.BLAKE3.Of(other).String())), stream.ErrRejected)
	requireNoSaves(t, p.folder)
	require.NoError(t, p.stream(t, request, announced, stream.Key(stream.BLAKE3.Of(announced).String())))
}

// A key is what a client says of a content, so it must not make one content pass for another.
func TestStreamThatLiesAboutItsKey(t *testing.T) {
	announced := []byte("aaaa")
	key := stream.Key(stream.BLAKE3.Of(announced).String())
	for name, put := range map[string]func(p *pair, request uint32) error{
		"other content": func(p *pair, request uint32) error { return p.stream(t, request, []byte("bbbb"), key) },
		"hashed otherwise": func(p *pair, request uint32) error {
			return p.stream(t, request, announced, key, stream.Hash(stream.SHA256))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			request, ended, err := p.beginPut(t, "x", announced)
			require.NoError(t, err)
			require.NoError(t, put(p, request))
			err = <-ended
			require.ErrorContains(t, err, vault.ErrContent.Error())
			requireNoSaves(t, p.folder)
		})
	}
}

func TestPutWithoutADigest(t *testing.T) {
	p := newPair(t)
	_, err := ask(t.Context(), p.client, askPut, putArgs{Request: 1, Name: "x", Size: 1})
	require.ErrorIs(t, err, errNoDigest)
}

func TestFetchWithoutAnOffer(t *testing.T) {
	p := newPair(t)
	_, err := ask(t.Context(), p.client, askFetch, fetchArgs{1, asConfigured})
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "nothing was offered")
}

func TestPutOfNegativeSize(t *testing.T) {
	p := newPair(t)
	_, err := ask(t.Context(), p.client, askPut, putArgs{Request: 1, Name: "x", Size: -1, Digest: stream.BLAKE3.Of(nil)})
	require.ErrorIs(t, err, ErrRefused)
}

func TestNamesOfRequests(t *testing.T) {
	request, ok := requestOf(nameOf(1<<32 - 1))
	require.True(t, ok)
	require.Equal(t, uint32(1<<32-1), request)
	for _, bad := range []string{"", "-1", "4294967296", "x"} {
		_, ok = requestOf(bad)
		require.False(t, ok, bad)
	}
}

func TestManyPutsAtOnce(t *testing.T) {
	p := newPair(t)
	refusals := 0
	for i := range maxJobs + 2 {
		_, _, err := p.beginPut(t, fmt.Sprintf("save%d", i), []byte{byte(i)})
		if err != nil {
			require.ErrorIs(t, err, ErrRefused)
			refusals++
		}
	}
	require.Equal(t, 2, refusals)
}
