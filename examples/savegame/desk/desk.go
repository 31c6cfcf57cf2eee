// Package desk is where saves are handed in and out: a client talks to its desk, an actor that the server spawns for it,
// by calls, and the saves themselves travel as streams beside.
//
//	client                            server
//	put(request, name, size, digest)
//	                                  answer: stored (it was here already), refused, or send
//	stream of the content
//	                                  answer: stored, once the save is durable, or refused
//	get(request, name)
//	                                  answer: offered(size, digest) or refused
//	fetch(request, route)             stream of the content
//	list(request)                     stream of the entries
//	remove(request, name)             answer: done or refused
//
// A content's key is its digest, so an interrupted stream goes on where it stopped.
package desk

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// Class is the desk. A client owns its own.
var Class = rpc.NewClass("SaveDesk")

// Calls of a client, at most callRate a second.
var (
	callList   = rpc.Server[listArgs](Class, "List", rpc.Reliable, rpc.RateLimit(callRate))
	callRemove = rpc.Server[removeArgs](Class, "Remove", rpc.Reliable, rpc.RateLimit(callRate))
	callPut    = rpc.Server[putArgs](Class, "Put", rpc.Reliable, rpc.RateLimit(callRate))
	callGet    = rpc.Server[getArgs](Class, "Get", rpc.Reliable, rpc.RateLimit(callRate))
	callFetch  = rpc.Server[fetchArgs](Class, "Fetch", rpc.Reliable, rpc.RateLimit(callRate))
)

const callRate = 50

// callAnswer is the server's word on a request.
var callAnswer = rpc.Client[answer](Class, "Answer", rpc.Reliable)

// The streams. Each is named by its request.
var (
	content = stream.NewBlob("save")
	entries = stream.NewArray[Entry]("saves")
)

type (
	listArgs   struct{ Request uint32 }
	removeArgs struct {
		Request uint32
		Name    string
	}
	putArgs struct {
		Request uint32
		Name    string
		Size    int64
		Digest  stream.Digest
	}
	getArgs struct {
		Request uint32
		Name    string
	}
	fetchArgs struct {
		Request uint32
		Route   route
	}
)

// Validate refuses what names no content.
func (a putArgs) Validate() error {
	if a.Digest.IsZero() {
		return errNoDigest
	}
	return nil
}

// Validate refuses a route that is not known here.
func (a fetchArgs) Validate() error {
	if a.Route >= routes {
		return fmt.Errorf("route %d is unknown", a.Route)
	}
	return nil
}

// route is how a client wants a content to come.
type route uint8

const (
	asConfigured route = iota // at the server
	bySlices
	routes // how many there are
)

// routeOf is the route to ask for by a client that sends by that backend.
func routeOf(b stream.Backend) route {
	if b == (stream.Slices{}) {
		return bySlices
	}
	return asConfigured
}

// options say it to the stream.
func (r route) options() []stream.Option {
	if r == bySlices {
		return []stream.Option{stream.Via(stream.Slices{})}
	}
	return nil
}

// Entry is one save in a list.
type Entry struct {
	Name     string `quiver:"max=100"`
	Size     int64
	Modified time.Time
}

// verdict is what an answer says.
type verdict uint8

const (
	refused verdict = iota // for Reason
	send                   // the content is not here
	stored                 // the save is there, whole and durable
	offered                // Size and Digest tell the content
	done
)

type answer struct {
	Request uint32
	Verdict verdict
	Reason  string
	Size    int64
	Digest  stream.Digest
}

// Validate refuses an offer of what has no name.
func (a answer) Validate() error {
	if a.Verdict == offered && a.Digest.IsZero() {
		return errNoDigest
	}
	return nil
}

var errNoDigest = errors.New("a content without a digest")

// nameOf names the stream of a request, and requestOf reads that.
func nameOf(request uint32) string { return strconv.FormatUint(uint64(request), 10) }

func requestOf(name string) (uint32, bool) {
	n, err := strconv.ParseUint(name, 10, 32)
	return uint32(n), err == nil
}

// Trace lets somebody measure; all fields may be nil. They are called from any goroutine.
type Trace struct {
	Started  func()                   // a content is about to be sent: just before the stream's Start
	Received func()                   // the last byte of a content has been received and the whole is verified
	Sending  func(t *stream.Transfer) // a content is on its way
}

func (t *Trace) sending(transfer *stream.Transfer) {
	if t.Sending != nil {
		t.Sending(transfer)
	}
}

func (t *Trace) started() {
	if t.Started != nil {
		t.Started()
	}
}

func (t *Trace) received() {
	if t.Received != nil {
		t.Received()
	}
}
