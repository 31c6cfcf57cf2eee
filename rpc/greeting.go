package rpc

import "fmt"

// greeting is one side's place in the handshake: which message of the peer comes next. It is pure: feed it what
// arrives on channel 0, tell the server's what was answered.
type greeting struct {
	stage stage
}

type stage uint8

const (
	// A server waits for these in turn.
	awaitHello stage = iota
	awaitLogin
	awaitVerdict // our own: Authenticate has not answered yet
	awaitJoin
	// A client waits for these in turn.
	awaitServerHello // or Shape
	awaitWelcome
	// Both end here.
	greeted // nothing more travels on channel 0
	refused // the classes differ: only the Login that followed Hello may still arrive
)

// newGreeting returns the place of a side that has received nothing yet. A client has sent Hello and Login.
func newGreeting(client bool) greeting {
	if client {
		return greeting{awaitServerHello}
	}
	return greeting{awaitHello}
}

// receive parses what arrived on channel 0 and steps on. An error is a *controlError that ends the connection. The
// message is nil when it must be ignored.
func (g *greeting) receive(payload []byte) (message any, err error) {
	message, err = parseControl(payload)
	if err != nil {
		return nil, err
	}
	next, ok := g.after(message)
	if !ok {
		return nil, &controlError{ControlChannelMessageFail,
			fmt.Sprintf("%s arrived while %v", messageName(payload[0]), g.stage)}
	}
	ignored := g.stage == refused
	g.stage = next
	if ignored {
		return nil, nil
	}
	return message, nil
}

// after returns the stage that follows when message arrives now, and whether it may.
func (g *greeting) after(message any) (next stage, ok bool) {
	switch message.(type) {
	case hello:
		if g.stage == awaitServerHello {
			return awaitWelcome, true
		}
		return awaitLogin, g.stage == awaitHello
	case login:
		if g.stage == refused {
			return greeted, true
		}
		return awaitVerdict, g.stage == awaitLogin
	case welcome:
		return greeted, g.stage == awaitWelcome
	case join:
		return greeted, g.stage == awaitJoin
	case shapeLines:
		return greeted, g.stage == awaitServerHello
	}
	return g.stage, false
}

// refuse says that the server answered Hello with Shape.
func (g *greeting) refuse() { g.stage = refused }

// welcomed says that the server sent Welcome.
func (g *greeting) welcomed() { g.stage = awaitJoin }

// done reports whether nothing more may arrive.
func (g *greeting) done() bool { return g.stage == greeted }

func (s stage) String() string {
	switch s {
	case awaitHello:
		return "waiting for the client's Hello"
	case awaitLogin:
		return "waiting for Login"
	case awaitVerdict:
		return "deciding about the Login"
	case awaitJoin:
		return "waiting for Join"
	case awaitServerHello:
		return "waiting for the server's Hello"
	case awaitWelcome:
		return "waiting for Welcome"
	case refused:
		return "refusing the client's classes"
	}
	return "the handshake was over"
}
