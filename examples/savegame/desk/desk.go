// Package desk is where saves are put and got: a client makes requests to its
// desk, an actor that the server spawns for it. Manifests, bitmaps of chunks
// and chunks are sent beside, in blobs that have the request's number.
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
// An interrupted put or get is requested again, and then lacks less. A refusal
// is the request's answer, and the client gets the same error as the server. A
// machine without a token connects with a login code: see [users.ByCode].
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

	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/users"
	"github.com/quivernet/quiver/stream"
	"github.com/quivernet/quiver/stream/cdc"
	"github.com/quivernet/quiver/stream/manifest"
	"github.com/quivernet/quiver/stream/pieces"
)

// protocol is the version of what is sent beside the requests: versions, manifests,
// bitmaps and chunks. The handshake compares only classes, so a change of any of
// these must raise protocol, and ends that differ in it then report that.
const protocol = 1

// Class is the class of desks. A client owns its own desk.
var Class = rpc.NewClass(fmt.Sprintf("SaveDesk%d", protocol)).Errors(kinds...)

// askRate is how often a client may make each request in a second. Pages of
// lists may be requested as often as the longest list has pages.
const askRate = 50

// Requests that a client's methods make.
var (
	askPut  = rpc.ServerRequest[putArgs, Made](Class, "Put", rpc.RateLimit(askRate))
	askGet  = rpc.ServerRequest[getArgs, rpc.None](Class, "Get", rpc.RateLimit(askRate))
	askList = rpc.ServerRequest[listArgs, listPage](Class, "List", rpc.RateLimit(maxVersions/mostListed))
)

// Requests that are only a question and its answer: ask them of [Client.Desk].
var (
	// Restore makes a new version with the content of an old one, also of a save in the trash.
	Restore = rpc.ServerRequest[Edit, Made](Class, "Restore", rpc.RateLimit(askRate))
	// Remove puts a save into the trash: its versions stay for a while and can be restored.
	Remove = rpc.ServerRequest[Edit, versions.Version](Class, "Remove", rpc.RateLimit(askRate))
	// Erase deletes all versions of a save, permanently. It fails with
	// [versions.ErrConflict] if the newest version is neither the one seen, nor
	// put into the trash by a machine that had seen it, unless it is forced.
	Erase = rpc.ServerRequest[Edit, rpc.None](Class, "Erase", rpc.RateLimit(askRate))
	// Invite makes a login code for one more machine of the client's user.
	Invite = rpc.ServerRequest[rpc.None, string](Class, "Invite", rpc.RateLimit(1))
	// User returns the name of the user as which the client is logged in.
	User = rpc.ServerRequest[rpc.None, string](Class, "User", rpc.RateLimit(askRate))
)

// A number identifies a request and what is sent beside it. Each client counts its own.
type number uint32

// talk returns the exchange beside a request: manifests and chunks, which have
// digests, and their version.
func (n number) talk(peer *stream.Peer, rate int) *pieces.Talk {
	return &pieces.Talk{Blob: talks, Peer: peer, Name: strconv.FormatUint(uint64(n), 10), MaxPiece: cdc.MaxPacked, Rate: rate}
}

var talks = stream.NewBlob("talk")

const (
	// idleTimeout is after how much silence an end considers the other one gone.
	idleTimeout = 10 * time.Second
	// keepAlive is how often an end that has nothing to send shows that it is there.
	keepAlive = 3 * time.Second
	// maxPending is how many bytes of a stream may wait for a disk: enough for
	// 100 Mbit/s at 300 ms.
	maxPending = 4 << 20
)

// newWorld makes the world of an end. Its talks wait in the inboxes of its peers.
func newWorld(backend stream.Backend, c rpc.Config) (w *rpc.World, s *stream.Streams, err error) {
	c.IdleTimeout, c.KeepAlive, c.LogLevel = idleTimeout, keepAlive, new(slog.LevelVar)
	c.LogLevel.Set(slog.LevelDebug) // the logger's handler decides which levels it takes
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
	// maxVersion is the most bytes of a version: two names of 79 bytes, perhaps
	// all escaped, and 280 more.
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
		Name   string // the save whose history it is; empty = the newest version of each save
		Behind string // the last name that was listed, or
		Above  int    // the last number
	}
	listPage struct {
		Versions []versions.Version `quiver:"max=64"` // fewer than mostListed: this is the last page
	}
)

type (
	// Edit says what is to be done to a save.
	Edit struct {
		Name    string
		Version int // to restore; 0 = the last one that was put
		Machine string
		Seen    versions.Ref // the version of it that the machine has seen
		Force   bool         // erase it whatever was seen
	}
	// Made is a version that was made, or that was there already.
	Made struct {
		Version versions.Version
		Outcome versions.Outcome `quiver:"max=16"`
		// What was deleted to make room for it, or for tries before it:
		// maxDisplaced lines, and one for the rest.
		Displaced []string `quiver:"max=101,each=200"`
	}
)

const (
	// mostListed is how many versions a page of a list has: 20 KB.
	mostListed = 64
	// maxVersions is how many versions a list may have. Such a list takes a client 50 MB.
	maxVersions = 1 << 18
)

// maxDisplaced is for how many saves an answer says what was deleted: 10 KB of it.
const maxDisplaced = 100

// Errors of a server that does not do what was asked.
var (
	ErrFull     = errors.New("no room at the server")
	ErrStopping = errors.New("the server stops") // it may be back soon
	ErrBusy     = errors.New("the server is busy")
	errOther    = errors.New("the server could not do it; its log says why")
)

// kinds are the errors that a client is told.
var kinds = []error{
	versions.ErrNoSave, versions.ErrNoVersion, versions.ErrTrash, versions.ErrDamaged, users.ErrName, versions.ErrLacks,
	manifest.ErrManifest, cdc.ErrChunk, ErrFull, ErrStopping, ErrBusy, versions.ErrConflict, pieces.ErrViolation, errOther,
}

// refuse returns what a client is told about an error. Errors that are none of
// its business become errOther.
func refuse(err error) error {
	if full, is := errors.AsType[*versions.Full](err); is {
		return fmt.Errorf("%w: %w", ErrFull, full)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: %w", ErrFull, syscall.ENOSPC) // what wraps it names a file of the server
	}
	if slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) }) {
		return err
	}
	return errOther
}

// Transient reports whether what failed may succeed a little later: the connection
// was lost, or the server is stopping, has too many connections, cannot check
// tokens or does not check any more after many wrong ones, or does not answer.
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
