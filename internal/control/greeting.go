package control

import "fmt"

// Greeting is one side's place in the handshake: it knows which message of the peer may come next. Its owner hands it what arrives on
// channel 0, and on a server also tells it how the server answered.
type Greeting uint8

const (
	// A server waits for these in turn.
	awaitHello Greeting = iota
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
		return awaitServerHello
	}
	return awaitHello
}

// Receive parses a message of channel 0 and moves on. The error is an *Error and must end the connection. A nil message
// must be ignored.
func (g *Greeting) Receive(payload []byte) (message any, err error) {
	message, err = Parse(payload)
	if err != nil {
		return nil, err
	}
	next, ok := g.after(message)
	if !ok {
		return nil, &Error{Fail, fmt.Sprintf("%s arrived while %v", Name(payload[0]), *g)}
	}
	if *g == refused {
		message = nil
	}
	*g = next
	return message, nil
}

// after returns the place that follows when message arrives now, and whether it may.
func (g Greeting) after(message any) (next Greeting, ok bool) {
	switch message.(type) {
	case Hello:
		if g == awaitServerHello {
			return awaitWelcome, true
		}
		return awaitLogin, g == awaitHello
	case Login:
		if g == refused {
			return greeted, true
		}
		return awaitVerdict, g == awaitLogin
	case Welcome:
		return greeted, g == awaitWelcome
	case Join:
		return greeted, g == awaitJoin
	case Shape:
		return greeted, g == awaitServerHello
	}
	return g, false
}

// Refuse says that the server answered Hello with Shape.
func (g *Greeting) Refuse() { *g = refused }

// Welcomed says that the server sent Welcome.
func (g *Greeting) Welcomed() { *g = awaitJoin }

// Done reports whether the handshake is over.
func (g Greeting) Done() bool { return g == greeted }

// AwaitsHello reports whether the client has said nothing yet.
func (g Greeting) AwaitsHello() bool { return g == awaitHello }

var greetings = [...]string{
	awaitHello:       "waiting for the client's Hello",
	awaitLogin:       "waiting for Login",
	awaitVerdict:     "deciding about the Login",
	awaitJoin:        "waiting for Join",
	awaitServerHello: "waiting for the server's Hello",
	awaitWelcome:     "waiting for Welcome",
	greeted:          "the handshake was over",
	refused:          "refusing the client's classes",
}

// String says what the side does there, for errors.
func (g Greeting) String() string { return greetings[g] }
