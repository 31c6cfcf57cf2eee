package control

import "fmt"

// A Greeting is one side's state in the handshake. It determines which messages the peer may
// send next. Its owner passes it the messages of channel 0 and, on a server, records the
// server's answers in it.
type Greeting uint8

const (
	// States of a server, in order.
	awaitHello Greeting = iota
	awaitLogin
	awaitVerdict // no message may arrive: Authenticate has not returned yet
	awaitJoin
	// States of a client, in order.
	awaitServerHello // or Shape
	awaitWelcome
	// States of both.
	greeted // the handshake is over, and the Greeting is not used for later messages
	refused // the classes differ; only the Login that followed Hello may still arrive
)

// NewGreeting returns the state of a side that has received nothing yet. A client has already
// sent Hello and Login.
func NewGreeting(client bool) Greeting {
	if client {
		return awaitServerHello
	}
	return awaitHello
}

// Receive parses a message of channel 0 and updates the state. An error is an *Error and must
// end the connection. The caller must ignore a nil message.
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

// after returns the state that follows when message arrives. ok is false if the message may
// not arrive now.
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

// Refuse is called when the server has answered Hello with Shape.
func (g *Greeting) Refuse() { *g = refused }

// Welcomed is called when the server has sent Welcome.
func (g *Greeting) Welcomed() { *g = awaitJoin }

// Done reports whether the handshake is over.
func (g Greeting) Done() bool { return g == greeted }

// AwaitsHello reports whether the client has not sent Hello yet.
func (g Greeting) AwaitsHello() bool { return g == awaitHello }

// greetings holds the texts of String.
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

// String describes the state, for errors.
func (g Greeting) String() string { return greetings[g] }
