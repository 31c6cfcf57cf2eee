// Package desk is where saves are handed in and out: a client asks its desk, an actor that the server spawns for it, by
// requests. Manifests, bitmaps of chunks and chunks are said beside, in a stream either way that has the request's number.
//
//	client                                   server
//	Put(number, name, seen, mode, content)
//	manifest
//	                                         bitmap of the chunks that this user lacks
//	these chunks
//	                                         answer: the version, once it is durable
//
//	Get(number, name, version)
//	                                         the version, and its manifest
//	bitmap of the chunks that are wanted
//	                                         these chunks
//	                                         answer
//
// An interrupted put or get is asked for again: it lacks less then. A refusal is the request's answer, with a code that says
// of which kind it is: see [Refusal]. A machine without a token comes with a login code: see [users.ByCode].
package desk

import (
	"strconv"

	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
)

// Class is the desk. A client owns its own.
var Class = rpc.NewClass("SaveDesk")

// askRate is how often a client may ask each thing in a second, but for pages: as many as the longest list has.
const askRate = 50

// Requests of a client.
var (
	askPut     = rpc.ServerRequest[putArgs, made](Class, "Put", rpc.RateLimit(askRate))
	askGet     = rpc.ServerRequest[getArgs, rpc.None](Class, "Get", rpc.RateLimit(askRate))
	askList    = rpc.ServerRequest[listArgs, listPage](Class, "List", rpc.RateLimit(maxVersions/mostListed))
	askRestore = rpc.ServerRequest[editArgs, made](Class, "Restore", rpc.RateLimit(askRate))
	askRemove  = rpc.ServerRequest[editArgs, versions.Version](Class, "Remove", rpc.RateLimit(askRate))
	askErase   = rpc.ServerRequest[editArgs, rpc.None](Class, "Erase", rpc.RateLimit(askRate))
	askInvite  = rpc.ServerRequest[rpc.None, string](Class, "Invite", rpc.RateLimit(1))
	askUser    = rpc.ServerRequest[rpc.None, string](Class, "User", rpc.RateLimit(askRate))
)

// number names what a client does at its desk, and the streams of it. Clients count.
type number uint32

func (n number) String() string { return strconv.FormatUint(uint64(n), 10) }

type (
	putArgs struct {
		Number  number
		Request versions.Request
	}
	getArgs struct {
		Number  number
		Name    string
		Version int
		Slices  bool // the chunks come as those
		Rate    int  // bytes a second of the chunks; 0: no limit
	}
	listArgs struct {
		Name   string // of the save whose history it is; empty: the newest version of each
		Behind string // names that were listed, or
		Above  int    // numbers
	}
	listPage struct {
		Versions []versions.Version `quiver:"max=64"` // fewer than mostListed: the last ones
	}
	editArgs struct {
		Name    string
		Version int // to restore
		Machine string
		Seen    versions.Ref // of what is erased
		Force   bool         // it is erased whatever was seen
	}
	made struct {
		Version   versions.Version
		Displaced []string `quiver:"max=101,each=200"` // what was deleted to make room for it, or for tries before it: maxDisplaced lines, and one for the rest
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
