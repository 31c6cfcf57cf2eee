package control

import "fmt"

// A Greeting is the state of one side of the handshake, which decides which messages may arrive
// next. The owner passes the messages of channel 0 to Receive. A server also reports its own
// answers, by calling Refuse and Welcomed.
type Greeting uint8

const (
	// States of a server.
	awaitHello Greeting = iota
	awaitLogin
	awaitVerdict // Authenticate is running, and no message may arrive until it returns
	awaitJoin

	// States of a client.
	awaitServerHello // or Shape
	awaitWelcome
	// Final states of both sides. Only a server can be in refused.
	greeted // the handshake is over; the Greeting doesn't check later messages
	refused // the classes differ; the Login that the client sent along with its Hello may still arrive
)

// NewGreeting returns the state of a side that has received nothing yet. A client has already sent
// Hello and Login.
func NewGreeting(client bool) Greeting {
	if client {
		return awaitServerHello
	}
	return awaitHello
}

// Receive parses a message of channel 0 and moves on to the next state. It returns nil for a
// message that the caller must ignore. An error is an *Error, and must end the connection.
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
		// The Login that followed the client's Hello. The client has been refused already.
		message = nil
	}
	*g = next
	return message, nil
}

// after returns the state after a message. ok is false if the message may not arrive now.
func (g Greeting) after(message any) (next Greeting, ok bool) {
	switch message.(type) {
	case Hello:
		if g == awaitServerHello {
			return awaitWelcome, true
		}
		return awaitLogin, g == awaitHello
	case Login:
		// A client sends Login right after Hello, which we may have refused in between.
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

// Refuse is called when the server has answered Hello with a Shape.
func (g *Greeting) Refuse() { *g = refused }

// Welcomed is called when the server has sent Welcome.
func (g *Greeting) Welcomed() { *g = awaitJoin }

// Done reports whether the handshake is over.
func (g Greeting) Done() bool { return g == greeted }

// AwaitsHello reports whether we are a server whose client has sent nothing yet.
func (g Greeting) AwaitsHello() bool { return g == awaitHello }

// greetings holds the results of String.
var greetings = [...]string{
	awaitHello:       "waiting for the client's Hello",
	awaitLogin:       "waiting for Login",
	awaitVerdict:     "authenticating the client",
	awaitJoin:        "waiting for Join",
	awaitServerHello: "waiting for the server's Hello",
	awaitWelcome:     "waiting for Welcome",
	greeted:          "the handshake was over",
	refused:          "refusing the client's classes",
}

// String says what the side was doing, for errors.
func (g Greeting) String() string { return greetings[g] }
