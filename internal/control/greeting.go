package control

import "fmt"

// Greeting is one side's place in the handshake: it knows which message of the peer may come next. Its owner hands it what arrives on
// channel 0, and on a server also tells it how the server answered.
type Greeting struct {
	stage stage
}

type stage uint8

const (
	// A server waits for these in turn.
	awaitHello stage = iota
	awaitLogin
	awaitVerdict // no message: the server's own Authenticate has not returned yet
	awaitJoin
	// A client waits for these in turn.
	awaitServerHello // or Shape
	awaitWelcome
	// Both end here.
	greeted // the handshake is over: Greeting has no part in what travels on channel 0 from now on
	refused // the classes differ: only the Login that followed Hello may still arrive
)

// NewGreeting returns the place of a side that has received nothing yet. A client has sent Hello and Login.
func NewGreeting(client bool) Greeting {
	if client {
		return Greeting{awaitServerHello}
	}
	return Greeting{awaitHello}
}

// Receive parses a message of channel 0 and moves to the next stage. The error is an *Error and must end the connection. A nil message
// must be ignored.
func (g *Greeting) Receive(payload []byte) (message any, err error) {
	message, err = Parse(payload)
	if err != nil {
		return nil, err
	}
	next, ok := g.after(message)
	if !ok {
		return nil, &Error{Fail, fmt.Sprintf("%s arrived while %v", Name(payload[0]), g.stage)}
	}
	ignored := g.stage == refused
	g.stage = next
	if ignored {
		return nil, nil
	}
	return message, nil
}

// after returns the stage that follows when message arrives now, and whether it may.
func (g *Greeting) after(message any) (next stage, ok bool) {
	switch message.(type) {
	case Hello:
		if g.stage == awaitServerHello {
			return awaitWelcome, true
		}
		return awaitLogin, g.stage == awaitHello
	case Login:
		if g.stage == refused {
			return greeted, true
		}
		return awaitVerdict, g.stage == awaitLogin
	case Welcome:
		return greeted, g.stage == awaitWelcome
	case Join:
		return greeted, g.stage == awaitJoin
	case Shape:
		return greeted, g.stage == awaitServerHello
	}
	return g.stage, false
}

// Refuse says that the server answered Hello with Shape.
func (g *Greeting) Refuse() { g.stage = refused }

// Welcomed says that the server sent Welcome.
func (g *Greeting) Welcomed() { g.stage = awaitJoin }

// Done reports whether the handshake is over.
func (g *Greeting) Done() bool { return g.stage == greeted }

// AwaitsHello reports whether the client has said nothing yet.
func (g *Greeting) AwaitsHello() bool { return g.stage == awaitHello }

// String returns the name of the stage.
func (g Greeting) String() string { return g.stage.String() }

var stages = [...]string{
	awaitHello:       "waiting for the client's Hello",
	awaitLogin:       "waiting for Login",
	awaitVerdict:     "deciding about the Login",
	awaitJoin:        "waiting for Join",
	awaitServerHello: "waiting for the server's Hello",
	awaitWelcome:     "waiting for Welcome",
	greeted:          "the handshake was over",
	refused:          "refusing the client's classes",
}

func (s stage) String() string { return stages[s] }
