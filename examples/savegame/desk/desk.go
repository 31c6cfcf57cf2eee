// Package desk is the protocol of savegame. A client makes requests to its desk, an actor that the
// server spawns for it. Manifests, bitmaps of chunks, and chunks are sent separately, in blobs that
// have the number of the request.
//
//	client                                   server
//	Put(number, name, seen, mode, content)
//	manifest
//	                                         bitmap of the chunks that this user lacks
//	these chunks
//	                                         answer: the version, once it is durable
//
//	Get(number, name, version)
//	                                         the version, in JSON, and its manifest
//	bitmap of the chunks that are wanted
//	                                         these chunks
//	                                         answer
//
// An interrupted put or get is requested again, and then fewer chunks are missing. A refusal is the
// answer to the request, and the client gets the same error as the server. A machine without a
// token connects with a login code; see [users.ByCode].
package desk

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/quivernet/quiver/examples/savegame/store"
	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
	"github.com/quivernet/quiver/stream/pieces"
)

// protocol is the version of the format of blobs: versions, manifests, bitmaps and chunks. The
// handshake compares only classes, whose name includes protocol. It must be incremented whenever
// one of these formats changes, so that incompatible ends report a mismatch.
const protocol = 1

// Class is the class of desks. A client owns its own desk.
var Class = rpc.NewClass(fmt.Sprintf("SaveDesk%d", protocol)).Errors(kinds...)

// askRate is how many requests of each kind a client may make per second. For pages of lists, the
// limit is the number of pages of the longest list.
const askRate = 50

// Requests made by methods of Client.
var (
	askPut  = rpc.ServerRequest[putArgs, Made](Class, "Put", rpc.RateLimit(askRate))
	askGet  = rpc.ServerRequest[getArgs, rpc.None](Class, "Get", rpc.RateLimit(askRate))
	askList = rpc.ServerRequest[listArgs, listPage](Class, "List", rpc.RateLimit(maxVersions/pageSize))
)

// Requests without blobs, which are asked of [Client.Desk].
var (
	// Restore makes a new version with the content of an old one, even of a save in the trash.
	Restore = rpc.ServerRequest[Edit, Made](Class, "Restore", rpc.RateLimit(askRate))
	// Remove moves a save to the trash, from which its versions can be restored for a while.
	Remove = rpc.ServerRequest[Edit, versions.Version](Class, "Remove", rpc.RateLimit(askRate))
	// Erase permanently deletes all versions of a save. Unless Force is set, it fails with
	// [versions.ErrConflict] if the machine hasn't seen the newest version, unless a machine that
	// had seen it moved the save to the trash.
	Erase = rpc.ServerRequest[Edit, rpc.None](Class, "Erase", rpc.RateLimit(askRate))
	// Invite returns a login code for another machine of the client's user.
	Invite = rpc.ServerRequest[rpc.None, string](Class, "Invite", rpc.RateLimit(1))
	// User returns the name of the user that the client is logged in as.
	User = rpc.ServerRequest[rpc.None, string](Class, "User", rpc.RateLimit(askRate))
)

// A number identifies a request and its blobs. Each client counts its own requests.
type number uint32

// talk returns the exchange of a request's blobs.
func (n number) talk(peer *stream.Peer, rate int) *pieces.Talk {
	return &pieces.Talk{Blob: talks, Peer: peer, Name: strconv.FormatUint(uint64(n), 10), MaxPiece: cdc.MaxPacked, Rate: rate}
}

var talks = stream.NewBlob("talk")

const (
	// idleTimeout is how long an end waits for packets before it considers the other end gone.
	idleTimeout = 10 * time.Second
	// keepAlive is the interval at which an end that has nothing to send shows that it is alive.
	keepAlive = 3 * time.Second
	// maxPending is how many bytes of a stream may wait for a disk. It is enough for 100 Mbit/s
	// with a round trip of 300 ms.
	maxPending = 4 << 20
)

// newWorld returns the world of an end. Blobs that it receives wait in the inboxes of its peers.
func newWorld(backend stream.Backend, c rpc.Config) (w *rpc.World, s *stream.Streams, err error) {
	c.IdleTimeout, c.KeepAlive, c.LogLevel = idleTimeout, keepAlive, new(slog.LevelVar)
	c.LogLevel.Set(slog.LevelDebug) // the logger's handler filters by level
	if w, err = rpc.NewWorld(c); err != nil {
		return nil, nil, err
	}
	if s, err = stream.Install(w, stream.Config{Backend: backend, MaxBytes: -1, MaxPending: maxPending}); err == nil {
		talks.Handle(s, stream.ToInbox)
	}
	return w, s, err
}

const (
	versionBlob = "version" // a version, in JSON
	// maxVersion is the maximum size of a version in bytes: two names of 79 bytes, all of which may
	// be escaped, and 280 more.
	maxVersion = 2 << 10
)

type (
	putArgs struct {
		Number  number
		Request versions.Request
	}
	getArgs struct {
		Number  number
		Name    string
		Version int
		Rate    int // bytes of chunks a second; 0 = no limit
	}
	listArgs struct {
		Name   string // the save whose history is wanted; empty = the newest version of each save
		Behind string // the last name of the previous page, or
		Above  int    // its last number
	}
	listPage struct {
		Versions []versions.Version `quiver:"max=64"` // fewer than pageSize on the last page
	}
)

type (
	// Edit describes a change of a save.
	Edit struct {
		Name    string
		Version int // for Restore; 0 = the last one that was put
		Machine string
		Seen    versions.Ref // the version that the machine saw last
		Force   bool         // for Erase, whatever the machine has seen
	}
	// Made is a version that was made, or that existed already.
	Made struct {
		Version versions.Version
		Outcome versions.Outcome `quiver:"max=16"`
		// Displaced is what was deleted to make room for it, or for earlier attempts: up to
		// maxDisplaced lines, and one for the rest.
		Displaced []string `quiver:"max=101,each=200"`
	}
)

const (
	// pageSize is how many versions a page of a list has. They take 20 KB.
	pageSize = 64
	// maxVersions is the maximum length of a list. Such a list takes 50 MB at the client.
	maxVersions = 1 << 18
)

// maxDisplaced is the maximum number of saves for which an answer lists what was deleted. They take
// 10 KB.
const maxDisplaced = 100

// Errors that a server returns.
var (
	ErrFull     = errors.New("no room on the server")
	ErrStopping = errors.New("server is stopping") // it may be back soon
	ErrBusy     = errors.New("server is busy")
	errOther    = errors.New("server failed; see its log for the reason")
)

// kinds are the errors that are sent to clients.
var kinds = []error{
	versions.ErrNoSave, versions.ErrNoVersion, versions.ErrTrash, versions.ErrDamaged, users.ErrName, versions.ErrLacks,
	manifest.ErrManifest, cdc.ErrChunk, ErrFull, ErrStopping, ErrBusy, versions.ErrConflict, pieces.ErrViolation, errOther,
}

// refuse returns the error that is sent to a client. Errors that don't concern clients become
// errOther.
func refuse(err error) error {
	if full, is := errors.AsType[*versions.Full](err); is {
		return fmt.Errorf("%w: %w", ErrFull, full)
	}
	if store.IsFull(err) {
		return fmt.Errorf("%w: %w", ErrFull, syscall.ENOSPC) // without the wrapping error, which names a file of the server
	}
	if slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
		return err
	}
	return errOther
}

// Transient reports whether a call that failed with err may succeed a little later, because the
// connection was lost, or because the server is stopping, has too many connections, can't check
// tokens, rejects logins after many wrong tokens, or doesn't answer.
func Transient(err error) bool {
	if closed, is := errors.AsType[*rpc.CloseError](err); is {
		return closed.Temporary()
	}
	if unknown, is := errors.AsType[*net.DNSError](err); is && unknown.IsNotFound {
		return false
	}
	late, is := errors.AsType[net.Error](err)
	return is && late.Timeout() || errors.Is(err, ErrStopping) || errors.Is(err, ErrBusy) || errors.Is(err, rpc.ErrBacklogFull) || errors.As(err, new(*net.OpError))
}
