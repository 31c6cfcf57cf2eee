// Package desk is where saves are handed in and out: a client asks its desk, an actor that the server spawns for it, by requests, and the
// saves themselves travel as streams beside.
//
//	client                            server
//	put(number, name, size, digest)
//	                                  call: send(number), unless the content is here already
//	stream of the content
//	                                  answer, once the save is durable: whether it was here
//	get(number, name)
//	                                  answer: size and digest of what is on offer
//	fetch(number, route)              answer, and the stream of the content
//	list(number)                      answer, and the stream of the entries
//	remove(name)                      answer
//
// A refusal is the error of the request. A content's key is its digest, so an interrupted stream goes on where it stopped.
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

// Requests of a client, at most askRate a second. One has a name by which tests play a server that lies.
var (
	AskList   = rpc.ServerRequest[listArgs, rpc.None](Class, "List", rpc.RateLimit(askRate))
	askRemove = rpc.ServerRequest[removeArgs, rpc.None](Class, "Remove", rpc.RateLimit(askRate))
	askPut    = rpc.ServerRequest[putArgs, stored](Class, "Put", rpc.RateLimit(askRate))
	askGet    = rpc.ServerRequest[getArgs, offered](Class, "Get", rpc.RateLimit(askRate))
	askFetch  = rpc.ServerRequest[fetchArgs, rpc.None](Class, "Fetch", rpc.RateLimit(askRate))
)

const askRate = 50

// callSend has the client send the content of a put.
var callSend = rpc.Client[sendArgs](Class, "Send", rpc.Reliable)

// The streams. Each is named by the number of its request.
var (
	content = stream.NewBlob("save")
	entries = stream.NewArray[Entry]("saves")
)

type (
	listArgs   struct{ Request uint32 }
	removeArgs struct{ Name string }
	sendArgs   struct{ Request uint32 }
	putArgs    struct {
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

// stored answers a put: the save is there, whole and durable.
type stored struct{ Had bool } // it was there before

// offered answers a get.
type offered struct {
	Size   int64
	Digest stream.Digest
}

// Validate refuses an offer of what has no name.
func (o offered) Validate() error {
	if o.Digest.IsZero() {
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
