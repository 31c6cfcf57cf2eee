package main

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/stream"
)

// An end is the server or a client. It has a world, and the data that arrived through topics.
type end struct {
	world       *rpc.World
	streams     *stream.Streams
	controllers *rpc.Binding[*controller]
	log         *journal

	bounded []BoundedStruct
	structs []Struct
	floats  []float32
	save    []MyData
	failed  error
}

// newEnd returns an end whose world handles all calls and topics of the story.
func newEnd(config rpc.Config) *end {
	e := &end{log: &journal{}}
	config.Logger = slog.New(slog.NewTextHandler(e.log, nil))
	e.world = must(rpc.NewWorld(config))
	e.streams = must(stream.Install(e.world, stream.Config{}))
	e.controllers = bindController(e.world)
	collect(Bounded, e.streams, &e.bounded)
	collect(Structs, e.streams, &e.structs)
	collect(Floats, e.streams, &e.floats)
	SaveGame.Handle(e.streams, func(in *stream.IncomingBlob) { go e.load(in) })
	return e
}

// collect appends the elements that arrive, on the world's goroutine.
func collect[T any](topic *stream.Array[T], streams *stream.Streams, into *[]T) {
	topic.Handle(streams, func(in *stream.IncomingArray[T]) {
		in.OnBatch(func(batch []T) { *into = append(*into, batch...) })
	})
}

// load reads a blob on a separate goroutine, and posts its value to the world's.
func (e *end) load(in *stream.IncomingBlob) {
	var save []MyData
	err := receiveBytes(in, &save)
	e.world.Post(func() { e.save, e.failed = save, err })
}

// newServer returns a server. It spawns a controller for each client
// (AGameModeBase::Login), and ticks all controllers (TickActor) before packets are sent.
func newServer(config rpc.Config) *end {
	config.OnConnect = func(w *rpc.World, conn *rpc.Conn) { w.Spawn(PlayerController, conn) }
	e := newEnd(config)
	e.world.OnTick(func(time.Time) {
		for _, c := range e.controllers.All() {
			if err := c.tickActor(); err != nil {
				e.failed = err
			}
		}
	})
	return e
}

// controller returns the server's controller of the only client, or the client's copy of it, or nil
// if there is none.
func (e *end) controller() *controller {
	for _, c := range e.controllers.All() {
		return c
	}
	return nil
}

// A journal keeps the log of an end. It is safe for concurrent use.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// find returns the first line that contains word, without its time, or "" if there is none.
func (j *journal) find(word string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, word) {
			_, line, _ = strings.Cut(line, " ")
			return strings.TrimSpace(line)
		}
	}
	return ""
}
