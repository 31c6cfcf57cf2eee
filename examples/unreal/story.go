package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/rpc"
)

// A network connects the worlds and makes them tick, over sockets or, in tests, in virtual time.
// The whole game runs on the goroutine that calls its methods, as on Unreal's game thread.
type network interface {
	// join connects a client's world to the server's, and returns when they are connected.
	join(w *rpc.World) error
	// until ticks all worlds until done returns true, or limit has passed.
	until(limit time.Duration, done func() bool) (reached bool)
}

// A stage runs the parts of the story, with the server and one client at a time.
type stage struct {
	network
	server, client *end
	mode           gameMode
}

// patience is long enough for the worst emulated network.
const patience = 2 * time.Minute

// wait ticks until done returns true or the server fails.
func (s *stage) wait(done func() bool) error {
	if !s.until(patience, func() bool { return done() || s.server.failed != nil }) {
		return fmt.Errorf("no end within %v", patience)
	}
	return s.server.failed
}

// end waits until a stream.Calling has sent everything, or until a stream.Transfer has ended, which
// is when the peer's application has received everything.
func (s *stage) end(t interface {
	Done() <-chan struct{}
	Err() error
}) error {
	return errors.Join(s.wait(func() bool {
		select {
		case <-t.Done():
			return true
		default:
			return false
		}
	}), t.Err())
}

// whole waits until got reports that all elements arrived, and compares them with those that were
// sent.
func (s *stage) whole(got func() ([]MyData, bool)) error {
	err := s.wait(func() bool { _, all := got(); return all })
	if data, _ := got(); err == nil && !slices.Equal(data, s.mode.data) {
		return fmt.Errorf("%d elements were sent, but %d different ones arrived", len(s.mode.data), len(data))
	}
	return err
}

// enter connects a new client, and waits for its controller.
func (s *stage) enter(config rpc.Config) error {
	s.client = newEnd(config)
	if err := s.join(s.client.world); err != nil {
		return err
	}
	return s.wait(func() bool { return s.client.controller() != nil })
}

// overflow runs sendInALoop during a Dispatch, as a game would, and waits until the client has
// logged why it was disconnected.
func (s *stage) overflow() (sent int, err error) {
	s.server.world.Post(func() { sent, err = s.mode.sendInALoop(s.server.controller()) })
	waited := s.wait(func() bool {
		return s.server.controller() == nil && s.client.log.find("disconnected") != ""
	})
	return sent, errors.Join(err, waited)
}

// download plays sendDataTo, from the server to the client.
func (s *stage) download() error {
	s.mode.sendDataTo(s.server.controller())
	return s.whole(s.client.controller().result)
}

// upload plays sendToServer, from the client to the server.
func (s *stage) upload() error {
	calling, err := s.client.controller().sendToServer(s.mode.data)
	if err == nil {
		err = s.end(calling)
	}
	if err != nil {
		return err
	}
	return s.whole(s.server.controller().result)
}

// nested sends elements with inner arrays to the client, both bounded and separately, at the same
// time.
func (s *stage) nested() error {
	all := makeNested(2000)
	peer := s.server.streams.Peer(s.server.world.Conns()[0])
	transfers, err := sendNested(peer, all)
	for _, t := range transfers {
		err = errors.Join(err, s.end(t))
	}
	equal := func(a, b BoundedStruct) bool { return a.ID == b.ID && slices.Equal(a.Inner, b.Inner) }
	if err != nil {
		return err
	}
	joined := join(s.client.structs, s.client.floats)
	if !slices.EqualFunc(all, s.client.bounded, equal) || !slices.EqualFunc(all, joined, equal) {
		return errors.New("elements that arrived differ from those that were sent")
	}
	return nil
}

// bytes plays sendBytes, from the client to the server.
func (s *stage) bytes() error {
	transfer, err := sendBytes(s.client.streams.Peer(s.client.world.Conns()[0]), s.mode.data)
	if err == nil {
		err = s.end(transfer)
	}
	if err != nil {
		return err
	}
	return s.whole(func() ([]MyData, bool) { return s.server.save, s.server.save != nil })
}

// folded matches a line of the story, which ends between words before the 100th column.
var folded = regexp.MustCompile(`(.{1,96})(?: |$)`)

// tell runs all parts and prints what happened. It returns an error if the outcome differs from the
// article's.
func (s *stage) tell(w io.Writer, config rpc.Config) error {
	say := func(format string, args ...any) {
		fmt.Fprint(w, folded.ReplaceAllString(fmt.Sprintf(format, args...), "   $1\n"))
	}
	if err := s.enter(config); err != nil {
		return err
	}
	fmt.Fprintln(w, "1. One ClientReceiveData with all", len(s.mode.data), "elements")
	err := s.mode.sendAtOnce(s.server.controller())
	if !errors.Is(err, bunch.ErrBunchTooLarge) {
		return fmt.Errorf("one big RPC: %w", err)
	}
	say("refused: %v", err)

	fmt.Fprintln(w, "2. ClientReceiveData of up to 32 KiB in a loop,", chunks(len(s.mode.data)), "times")
	sent, err := s.overflow()
	closed, ok := errors.AsType[*rpc.CloseError](err)
	if !ok || closed.Code != rpc.ReliableBufferOverflow {
		return fmt.Errorf("the loop: %w", err)
	}
	say("%d calls succeeded, and the next one closed the connection", sent)
	say("server's log: %s", s.server.log.find("ReliableBufferOverflow"))
	say("client's log: %s", s.client.log.find("ReliableBufferOverflow"))

	if err := s.enter(config); err != nil {
		return err
	}
	fmt.Fprintln(w, "3. A controller that streams from TickActor")
	if err := s.download(); err != nil {
		return err
	}
	say("all arrived, and no more than %d of 256 entries were ever in use", s.server.controller().peak)
	for _, part := range []struct {
		title string
		play  func() error
	}{
		{"4. The same to the server, with stream.Calls", s.upload},
		{"5. Inner arrays, bounded in the element, and sent separately", s.nested},
		{"6. Anything as bytes, to the server", s.bytes},
	} {
		fmt.Fprintln(w, part.title)
		if err := part.play(); err != nil {
			return fmt.Errorf("%s: %w", part.title, err)
		}
		say("all arrived")
	}
	return nil
}
