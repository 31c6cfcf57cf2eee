package stream

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/rpc"
)

// touchy is an element whose own encoding panics at a chosen place.
type touchy struct{ At byte }

const (
	touchyEncode = 1 + iota
	touchyDecode
)

func (e touchy) AppendBinary(b []byte) ([]byte, error) {
	if e.At == touchyEncode {
		panic("encode")
	}
	return append(b, e.At), nil
}

func (e *touchy) UnmarshalBinary(b []byte) error {
	if e.At = b[0]; e.At == touchyDecode {
		panic("decode")
	}
	return nil
}

func (touchy) MaxEncodedSize() int { return 1 }

var touchies = NewArray[touchy]("touchies")

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("read") }

// panicStore panics in one of its methods, or its parts'.
type panicStore struct {
	Store
	at string
}

func (s panicStore) Lookup(identity, key string) (Content, error) {
	if s.at == "lookup" {
		panic(s.at)
	}
	return s.Store.Lookup(identity, key)
}

func (s panicStore) Open(identity, key string, size int64) (Part, error) {
	if s.at == "open" {
		panic(s.at)
	}
	p, err := s.Store.Open(identity, key, size)
	return panicPart{p, s.at}, err
}

type panicPart struct {
	Part
	at string
}

func (p panicPart) Write(b []byte) (int, error) {
	if p.at == "write" {
		panic(p.at)
	}
	return p.Part.Write(b)
}

func (p panicPart) Commit(digest Digest) error {
	if p.at == "commit" {
		panic(p.at)
	}
	return p.Part.Commit(digest)
}

// panickedIn is what both ends' errors say of a panic.
var panickedIn = map[string]string{
	"lookup": "Store", "open": "Store", "write": "Store", "commit": "Store",
	"handler": "handler",
	"read":    "Read of the source",
	"encode":  "encoding of element 10",
	"decode":  "Store, or decoding of an element",
	"batch":   "OnBatch",
}

// TestPanicsFailTheirTransfer has functions of the game panic, at either end,
// in a world with OnPanic.
func TestPanicsFailTheirTransfer(t *testing.T) {
	sendSave := func(n *network) (*Transfer, error) {
		return save.Start(n.server.peer, bytes.NewReader(content(100_000)), 100_000, Key("k"), Name("slot 1"))
	}
	sendTouchy := func(e touchy) func(n *network) (*Transfer, error) {
		return func(n *network) (*Transfer, error) {
			return touchies.Start(n.server.peer, append(make([]touchy, 10), e))
		}
	}
	for name, send := range map[string]func(n *network) (*Transfer, error){
		"lookup": sendSave, "open": sendSave, "write": sendSave, "commit": sendSave,
		"handler": sendSave,
		"read": func(n *network) (*Transfer, error) {
			return save.Start(n.server.peer, panicReader{}, 10, Name("slot 1"))
		},
		"encode": sendTouchy(touchy{touchyEncode}),
		"decode": sendTouchy(touchy{touchyDecode}),
		"batch":  sendTouchy(touchy{}),
	} {
		t.Run(name, func(t *testing.T) {
			var told atomic.Int32
			s := setup{client: Config{Store: panicStore{newMemoryStore(), name}}}
			s.rpc.OnPanic = func(conn *rpc.Conn, function string, recovered any, _ []byte) {
				require.NotNil(t, conn)
				require.Regexp(t, `^(blob "save" named "slot 1"|array "touchies"): `+panickedIn[name]+"$", function)
				require.Equal(t, name, recovered)
				told.Add(1)
			}
			inNetwork(t, s, func(n *network) {
				ends := make(chan error, 1)
				n.handlePanics(name, ends)
				transfer, err := send(n)
				require.NoError(n, err)
				sent, received := transfer.Wait(n.ctx), <-ends
				require.ErrorIs(n, sent, ErrPanicked)
				require.ErrorIs(n, received, ErrPanicked)
				require.ErrorContains(n, sent, panickedIn[name])
				require.ErrorContains(n, received, panickedIn[name])
				require.EqualValues(n, 1, told.Load())
				require.NoError(n, items.Send(n.ctx, n.server.peer, testItems(100)), "the connection lives")
				n.requireIdle()
			})
		})
	}
}

// handlePanics binds handlers of which the one with that name panics, and
// reports how the transfer ended.
func (n *network) handlePanics(name string, ends chan<- error) {
	save.Handle(n.client.streams, func(in *IncomingBlob) {
		go func() {
			<-in.Done()
			ends <- in.Err()
		}()
		if name == "handler" {
			panic(name)
		}
		go io.Copy(io.Discard, in)
	})
	touchies.Handle(n.client.streams, func(in *IncomingArray[touchy]) {
		in.OnEnd(func(err error) { ends <- err })
		in.OnBatch(func([]touchy) {
			if name == "batch" {
				panic(name)
			}
		})
	})
	items.Handle(n.client.streams, func(in *IncomingArray[item]) { go in.Collect(n.ctx) })
}

// TestPanicsGoOn has the game's functions panic on the world's goroutine
// without OnPanic, and somebody recover.
func TestPanicsGoOn(t *testing.T) {
	for name, send := range map[string]func(n *network) (*Transfer, error){
		"handler": func(n *network) (*Transfer, error) { return n.mustStart(n.server.peer, content(100)), nil },
		"batch":   func(n *network) (*Transfer, error) { return touchies.Start(n.server.peer, make([]touchy, 10)) },
	} {
		t.Run(name, func(t *testing.T) {
			var recovered atomic.Pointer[any]
			s := setup{tick: 10 * time.Millisecond, recovers: func(v any) { recovered.Store(&v) }}
			inNetwork(t, s, func(n *network) {
				ends := make(chan error, 1)
				n.handlePanics(name, ends)
				transfer, err := send(n)
				require.NoError(n, err)
				require.ErrorIs(n, transfer.Wait(n.ctx), ErrPanicked)
				require.ErrorIs(n, <-ends, ErrPanicked)
				require.Equal(n, name, *recovered.Load())
				require.NoError(n, items.Send(n.ctx, n.server.peer, testItems(100)))
				n.requireIdle()
			})
		})
	}
}

// TestPanicLeavesALoop has the body of a loop over Batches panic on a goroutine of the game.
func TestPanicLeavesALoop(t *testing.T) {
	inNetwork(t, setup{}, func(n *network) {
		items.Handle(n.client.streams, func(in *IncomingArray[item]) {
			go func() {
				defer func() { _ = recover() }()
				for range in.Batches(n.ctx) {
					panic("body")
				}
			}()
		})
		require.ErrorIs(n, items.Send(n.ctx, n.server.peer, testItems(10_000)), ErrCanceled)
		n.requireIdle()
	})
}

// TestPanicInCalls makes an item's own encoding panic between other calls, which continue.
func TestPanicInCalls(t *testing.T) {
	var s setup
	s.rpc.OnPanic = func(_ *rpc.Conn, function string, _ any, _ []byte) {
		require.Equal(t, "Calls of "+clientReceiveData.String()+": encoding of an item, or the function given to Wrap", function)
	}
	inCalls(t, s, func(c *callsTest) {
		var all [3]*Calling
		c.do(c.network.server.world, func() {
			for i := range all {
				call := Caller[[]item](clientReceiveData)
				if i == 1 {
					call = Wrap(call, func(items []item) []item {
						if len(items) > 0 {
							panic("wrap")
						}
						return items
					})
				}
				var err error
				all[i], err = Calls(call, c.server.actor, testItems(2000), CallsConfig{})
				require.NoError(c, err)
			}
		})
		for i, calling := range all {
			<-calling.Done()
			if i == 1 {
				require.ErrorIs(c, calling.Err(), ErrPanicked)
			} else {
				require.NoError(c, calling.Err())
			}
		}
	})
}
