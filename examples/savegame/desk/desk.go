// Package desk is where saves are handed in and out: a client asks its desk, an actor that the server spawns for it, by
// requests. Manifests, bitmaps of chunks and chunks are said beside, in blobs that have the request's number.
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
// An interrupted put or get is asked for again: it lacks less then. A refusal is the request's answer, and is at the client what it was at the
// server. A machine without a token comes with a login code: see [users.ByCode].
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

// protocol is the version of what is said beside the requests: versions, manifests, bitmaps and chunks. The handshake compares classes alone, so
// who changes any of these raises it, and ends that differ in it tell each other so.
const protocol = 1

// Class is the desk. A client owns its own.
var Class = rpc.NewClass(fmt.Sprintf("SaveDesk%d", protocol)).Errors(kinds...)

// askRate is how often a client may ask each thing in a second, but for pages: as many as the longest list has.
const askRate = 50

// Requests of a client's methods.
var (
	askPut  = rpc.ServerRequest[putArgs, Made](Class, "Put", rpc.RateLimit(askRate))
	askGet  = rpc.ServerRequest[getArgs, rpc.None](Class, "Get", rpc.RateLimit(askRate))
	askList = rpc.ServerRequest[listArgs, listPage](Class, "List", rpc.RateLimit(maxVersions/mostListed))
)

// Requests of a client that are a question and its answer: ask them of [Client.Desk].
var (
	// Restore makes a new version of what an old one holds, also of a save in the trash.
	Restore = rpc.ServerRequest[Edit, Made](Class, "Restore", rpc.RateLimit(askRate))
	// Remove puts a save into the trash: its versions stay for a while and can be restored.
	Remove = rpc.ServerRequest[Edit, versions.Version](Class, "Remove", rpc.RateLimit(askRate))
	// Erase deletes all versions of a save, for good. It fails with [versions.ErrConflict] when the newest one is neither the one seen, nor put
	// into the trash by who had seen it, unless it is forced.
	Erase = rpc.ServerRequest[Edit, rpc.None](Class, "Erase", rpc.RateLimit(askRate))
	// Invite makes a login code for one more machine of the client's user.
	Invite = rpc.ServerRequest[rpc.None, string](Class, "Invite", rpc.RateLimit(1))
	// User says as whom the client is logged in.
	User = rpc.ServerRequest[rpc.None, string](Class, "User", rpc.RateLimit(askRate))
)

// number names what a client does at its desk, and what is said beside. Clients count.
type number uint32

// talk returns what is said beside a request: manifests and chunks, which have digests, and their version.
func (n number) talk(peer *stream.Peer, rate int) *pieces.Talk {
	return &pieces.Talk{Blob: talks, Peer: peer, Name: strconv.FormatUint(uint64(n), 10), MaxPiece: cdc.MaxPacked, Rate: rate}
}

var talks = stream.NewBlob("talk")

const (
	// idleTimeout is after how much silence an end takes the other for gone.
	idleTimeout = 10 * time.Second
	// keepAlive is how often an end that has nothing to say shows that it is there.
	keepAlive = 3 * time.Second
	// maxPending is how many bytes of a stream wait for a disk: enough for 100 Mbit/s at 300 ms.
	maxPending = 4 << 20
)

// newWorld makes the world of an end, where talks wait in the inboxes of its peers.
func newWorld(backend stream.Backend, c rpc.Config) (w *rpc.World, s *stream.Streams, err error) {
	c.IdleTimeout, c.KeepAlive, c.LogLevel = idleTimeout, keepAlive, new(slog.LevelVar)
	c.LogLevel.Set(slog.LevelDebug) // the logger's handler knows what it takes
	if w, err = rpc.NewWorld(c); err != nil {
		return nil, nil, err
	}
	if s, err = stream.Install(w, stream.Config{Backend: backend, MaxBytes: -1, MaxPending: maxPending}); err == nil {
		talks.Handle(s, stream.ToInbox)
	}
	return w, s, err
}

const (
	versionBlob = "version" // in JSON
	// maxVersion bounds it in bytes: two names of 79, all of them escaped perhaps, and 280 beside.
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
		Rate    int // bytes a second of the chunks; 0: no limit
	}
	listArgs struct {
		Name   string // of the save whose history it is; empty: the newest version of each
		Behind string // names that were listed, or
		Above  int    // numbers
	}
	listPage struct {
		Versions []versions.Version `quiver:"max=64"` // fewer than mostListed: the last ones
	}
)

type (
	// Edit says what is to be done to a save.
	Edit struct {
		Name    string
		Version int // to restore; 0: the last one that was put
		Machine string
		Seen    versions.Ref // of what is removed or erased
		Force   bool         // it is erased whatever was seen
	}
	// Made is a version that was made, or was there.
	Made struct {
		Version   versions.Version
		Outcome   versions.Outcome `quiver:"max=16"`
		Displaced []string         `quiver:"max=101,each=200"` // what was deleted to make room for it, or for tries before it: maxDisplaced lines, and one for the rest
	}
)

const (
	// mostListed is how many versions a page of a list has: 20 KB.
	mostListed = 64
	// maxVersions bounds a list, which takes a client 50 MB then.
	maxVersions = 1 << 18
)

// maxDisplaced is of how many saves an answer says what was deleted: 10 KB of it.
const maxDisplaced = 100

// What a server says when it does not do what was asked.
var (
	ErrFull     = errors.New("no room at the server")
	ErrStopping = errors.New("the server stops") // and may be back soon
	ErrBusy     = errors.New("the server is busy")
	errOther    = errors.New("the server could not do it; its log says why")
)

// kinds are the errors that a client is told.
var kinds = []error{
	versions.ErrNoSave, versions.ErrNoVersion, versions.ErrTrash, versions.ErrDamaged, users.ErrName, versions.ErrLacks,
	manifest.ErrManifest, cdc.ErrChunk, ErrFull, ErrStopping, ErrBusy, versions.ErrConflict, pieces.ErrViolation, errOther,
}

// refuse makes of an error what a client is told: of one that is nobody's business no more than that.
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

// Transient reports whether what failed may succeed a little later: the connection was lost, or the server stops, is full of
// connections, cannot check tokens, has none checked after many that were wrong, or does not answer.
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
