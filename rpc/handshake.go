package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/bell"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/shape"
	"github.com/quivernet/quiver/internal/tasks"
)

// mismatchTime is how long a server waits for a client whose classes differ from its own. Once the
// client has the description of the server's classes, it closes with a reason that names the
// difference. The time must be long enough for the description and the close to arrive, even if
// both are resent.
const mismatchTime = 2 * time.Second

// A handshake is one side of the exchange that turns a new carrier into a connection that has
// joined. Client and server compare versions and classes (Hello), the server decides about the
// client (Login, Welcome), and the client confirms (Join).
//
// A handshake runs on a goroutine of its own, in runHandshake, so it makes progress even if
// nothing drives the world.
type handshake struct {
	conn     *Conn
	greeting control.Greeting

	ctx      context.Context // for Authenticate; done when the handshake ends
	deadline time.Time       // of the whole handshake
	timer    *time.Timer     // fires at deadline, or earlier: see HelloTimeout and mismatchTime
	mismatch *CloseError     // closes the connection when timer fires; nil unless classes differ

	// loginWaits is true from when Config.Login was posted until it is about to run. It is safe for
	// concurrent use.
	loginWaits atomic.Bool

	// Verdicts from authenticate, awaitTurn or Login, received by step. There is only one at a
	// time, so with a capacity of 1 no sender has to wait.
	verdicts chan verdict
}

// An entry is the part of a connection that lobby, handshake and world use until the connection
// is admitted.
type entry struct {
	slot *handshakeSlot // set by enlist; its fields are guarded by lobby.mu
	wake bell.Bell      // wakes the handshake when a message for it arrives

	// Connections whose OnDisconnect must run before our OnConnect: see endedBefore. Written by
	// the handshake until the connection has joined, and then by the world's goroutine.
	predecessors []*Conn
}

// terms are what both ends have agreed on in their Hellos. They don't change once the connection
// has joined.
type terms struct {
	maxBunch       int         // maximum message size in bytes that both ends allow
	reliableBuffer int         // entries of a channel's reliable buffer that both ends allow
	peerSeals      atomic.Bool // the peer has Config.Sealed; safe for concurrent use
}

// A verdict is the decision of Authenticate, or later of Login, about a client.
type verdict struct {
	identity string
	err      error
	failures int  // number of logins from the client's address that Authenticate has refused
	loggedIn bool // Login has run
}

// A verdict has one of these errors if Login or Authenticate panicked or called runtime.Goexit.
// After a panic, which isn't the client's fault, [World.panicked] has closed the connection.
var (
	errNoLogin  = errors.New("Config.Login did not return")
	errNoAnswer = errors.New("Config.Authenticate did not return")
)

// runHandshake runs the handshake until c has joined or has ended.
func runHandshake(c *Conn) {
	timeout := c.world.config.HandshakeTimeout
	deadline := time.Now().Add(timeout)
	if c.server {
		timeout = c.world.config.HelloTimeout
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	h := &handshake{
		conn:     c,
		greeting: control.NewGreeting(!c.server),
		timer:    time.NewTimer(timeout),
		deadline: deadline,
		ctx:      ctx,
		verdicts: make(chan verdict, 1),
	}
	defer h.timer.Stop()
	if !c.server {
		// Send both at once. Waiting for the server's Hello would take a round trip.
		h.conn.sendAtOnce(control.AppendHello(nil, h.hello()))
		h.conn.sendAtOnce(control.AppendLogin(nil, control.Login{Token: c.world.config.Token}))
	}
	for !h.step() {
	}
}

// step waits for the next event and handles it: a message, a verdict, the timer, or the end of
// the link. It returns true once the handshake is over.
func (h *handshake) step() (over bool) {
	c := h.conn
	select {
	case <-c.entry.wake:
		h.receiveAll()
	case v := <-h.verdicts:
		h.answer(v)
	case <-h.timer.C:
		h.expire()
	case <-c.link.Done():
		return true
	}
	if h.greeting.Done() && h.mismatch == nil && !c.life.closing.Load() {
		return c.joinWorld()
	}
	return false
}

// receiveAll handles the handshake messages that have arrived. It leaves messages that follow the
// handshake to the world's goroutine.
func (h *handshake) receiveAll() {
	c := h.conn
	for !h.greeting.Done() && !c.life.closing.Load() {
		c.link.Lock()
		message, ok := c.machine.Next()
		c.link.Unlock()
		if !ok {
			return
		}
		c.trace.Took()

		// This must be a control message, because the machine only accepts channel 0 before Join.
		h.receive(message.Payload)
	}
}

// receive handles one handshake message.
func (h *handshake) receive(payload []byte) {
	message, err := h.greeting.Receive(payload)
	if err != nil {
		h.conn.abort(violation(err))
		return
	}
	if log := h.conn.world.logs.Debug(logs.Handshake); log != nil {
		log.Debug("received", "conn", h.conn, "message", fmt.Sprintf("%T", message), "bytes", len(payload))
	}
	switch m := message.(type) {
	case control.Hello:
		h.onHello(m)
	case control.Login:
		h.onLogin(m)
	case control.Welcome:
		h.conn.world.lobby.identify(h.conn, m.Identity)
		// The server may open channels as soon as it has our Join.
		h.refuseChannels(bunch.NoError)
		h.conn.sendAtOnce(control.AppendJoin(nil))
		h.beginSealed()
	case control.Join:
		// A client must never open channels. Until now, the error for that was that it's too early.
		h.refuseChannels(bunch.Code(BunchWrongChannel))
	case control.Shape:
		// Our classes differ from the server's, and the server has described its own.
		h.conn.Close(ProtocolMismatch, shape.Mismatch(h.conn.world.table.shape.Lines, m.Lines, m.Cut))
	}
}

// onHello compares the peer's versions and classes with ours and works out the limits that both
// ends accept. A server also answers with its own Hello.
func (h *handshake) onHello(peer control.Hello) {
	c := h.conn
	ours := h.hello()
	h.timer.Reset(time.Until(h.deadline)) // HelloTimeout no longer applies
	if err := compareVersions(h.orderBySide(ours, peer)); err != nil {
		c.abort(err)
		return
	}
	if peer.Shape != ours.Shape {
		h.onMismatch(peer)
		return
	}
	c.link.Lock()
	err := c.machine.Agree(peer.Params)
	c.link.Unlock()
	if err != nil {
		c.abort(violationf(ControlChannelMessagePayloadFail, "Hello: %v", err))
		return
	}
	c.terms.maxBunch = min(ours.Params.MaxBunch, peer.Params.MaxBunch)
	c.terms.reliableBuffer = min(ours.Params.ReliableBuffer, peer.Params.ReliableBuffer)
	c.terms.peerSeals.Store(peer.Features&control.FeatureSealed != 0)
	if c.server {
		h.conn.sendAtOnce(control.AppendHello(nil, ours))
	}
}

// compareVersions returns an error if a client and its server have different versions of the
// protocol or of the game. For the protocol, it also says which end is older. Only the game knows
// the order of its own versions.
//
// It is called before the classes are compared, because another version is the simplest reason for
// other classes. The game's versions are quoted, so that a peer's can't look like a line of a log.
func compareVersions(client, server control.Hello) *CloseError {
	switch {
	case client.Version < server.Version:
		return violationf(ProtocolMismatch, "the client speaks version %d and the server version %d: the client is older",
			client.Version, server.Version)
	case client.Version > server.Version:
		return violationf(ProtocolMismatch, "the client speaks version %d and the server version %d: the server is older",
			client.Version, server.Version)
	case client.GameVersion != server.GameVersion:
		return violationf(ProtocolMismatch, "the game's version is %q at the client and %q at the server (Config.GameVersion)",
			client.GameVersion, server.GameVersion)
	}
	return nil
}

// onLogin calls Authenticate with the client's token, on a goroutine of its own. Without
// Authenticate, any token is accepted.
func (h *handshake) onLogin(m control.Login) {
	c := h.conn
	c.world.lobby.noteLogin(c)
	if c.world.config.Authenticate == nil {
		h.answer(verdict{})
		return
	}
	c.life.work.Go(func() { h.authenticate(m.Token) })
}

// authenticate waits for the token's turn, calls Authenticate and sends its verdict.
//
// The client keeps its handshake slot until Authenticate returns, even if the connection ends
// earlier. This limits the number of concurrent calls to Config.MaxHandshakes.
func (h *handshake) authenticate(token []byte) {
	if !h.awaitTurn(token) {
		return
	}

	// This error remains if Authenticate panics or calls runtime.Goexit.
	v := verdict{err: errNoAnswer}
	defer func() {
		if h.record(token, &v) {
			h.verdicts <- v
		}
	}()
	defer h.conn.world.catch(h.conn, tasks.Doing{What: "Config.Authenticate"})
	v.identity, v.err = h.conn.world.config.Authenticate(h.ctx, token)
}

// awaitTurn waits until Authenticate may be called for a token. It returns false if the client has
// left, or if too many logins from its address have failed. In the latter case, it sends a verdict.
func (h *handshake) awaitTurn(token []byte) (may bool) {
	w := h.conn.world
	slot := h.conn.entry.slot
	may, pause := w.lobby.awaitTurn(slot, token)
	if pause > 0 {
		reason := fmt.Sprintf("too many failed logins from %v; the limit is %d (Config.MaxLoginFailures): try again in %v",
			slot.From(), w.config.MaxLoginFailures, pause.Round(time.Millisecond))
		h.verdicts <- verdict{err: &CloseError{Code: ServerFull, Reason: reason}}
	}
	return may
}

// record tells the lobby what Authenticate has decided about a token, and sets v.failures. It
// reports whether the client should still be told.
func (h *handshake) record(token []byte, v *verdict) (tell bool) {
	late := !time.Now().Before(h.deadline)
	canceled := h.ctx.Err() != nil
	tell = !late && !canceled

	// Don't record a success that the client isn't told about. A later login, which would be
	// admitted in spite of the address's failures, could otherwise reveal it.
	answer := tokenUndecided
	switch {
	case v.err == nil && tell:
		answer = tokenAccepted
	case v.err != nil && !late && blamesToken(v.err, canceled):
		answer = tokenRefused
	}
	v.failures = h.conn.world.lobby.recordAnswer(h.conn.entry.slot, token, answer)
	return tell
}

// A tokenAnswer is what Authenticate's return value says about a token.
type tokenAnswer uint8

const (
	tokenUndecided tokenAnswer = iota // Authenticate couldn't decide
	tokenAccepted
	tokenRefused
)

// blamesToken reports whether an error of Authenticate means that the token is bad, rather than
// that Authenticate was unable to decide. canceled is true if the handshake ended in the meantime.
func blamesToken(err error, canceled bool) bool {
	interrupted := canceled && errors.Is(err, context.Canceled)
	return err != errNoAnswer && retryable(err) == nil && !interrupted
}

// answer acts on a verdict: it calls Login, welcomes the client or refuses it.
func (h *handshake) answer(v verdict) {
	c := h.conn
	identityTooLong := len(v.identity) > control.MaxIdentity
	needsLogin := c.world.config.Login != nil && !v.loggedIn
	if v.err == nil && needsLogin && !identityTooLong {
		h.logIn(v.identity)
		return
	}
	c.world.lobby.awaitJoin(c, v.err == nil)
	if c.life.closing.Load() {
		return // this end closed the connection in the meantime
	}
	switch {
	case v.err != nil:
		h.refuse(v)
	case identityTooLong:
		c.abort(violationf(PreLoginFailure, "Authenticate returned an identity of %d bytes; the limit is %d",
			len(v.identity), control.MaxIdentity))
	default:
		h.welcome(v.identity)
	}
}

// refuse closes the connection of a client whose login failed, and logs the reason. From the
// second failure on, the log also shows the number of logins from the address that Authenticate
// has refused.
func (h *handshake) refuse(v verdict) {
	c := h.conn
	args := []any{"conn", c, "error", v.err}
	if v.failures > 1 {
		args = append(args, "failures", v.failures)
	}
	c.life.refused.Store(true)
	c.world.logs.LogUnjoined(logs.Login, "login refused", args...)
	code, reason := refusal(v.err)
	c.Close(code, reason)
}

// refusal returns the code and reason with which to close the connection of a client that is
// refused with err.
func refusal(err error) (Code, string) {
	if retry := retryable(err); retry != nil {
		return retry.Code, retry.Reason
	}
	if err == errNoAnswer || err == errNoLogin {
		return HandlerPanic, err.Error()
	}
	if own, ok := errors.AsType[*CloseError](err); ok && own != nil && own.Code >= firstGameCode {
		return own.Code, own.Reason
	}
	return PreLoginFailure, err.Error()
}

// retryable returns the error with which to close the connection if the client may try again after
// err, an error of Authenticate or Login. Otherwise it returns nil.
func retryable(err error) *CloseError {
	if temporary, ok := errors.AsType[*CloseError](err); ok && temporary != nil && temporary.Temporary() {
		return temporary
	}
	if errors.Is(err, ErrBacklogFull) {
		// The world's queue of posts is full, so either we couldn't call Login, or Authenticate's
		// call of Do failed.
		return &CloseError{Code: ServerFull, Reason: strings.TrimPrefix(err.Error(), prefix)}
	}
	return nil
}

// logIn posts a call of Config.Login to the world's goroutine. It first ends the connections that
// this one replaces, because Login may load the data that their OnDisconnect saves.
func (h *handshake) logIn(identity string) {
	c := h.conn
	c.world.lobby.identify(c, identity)
	c.life.loginAsked.Store(true)
	if !c.world.config.RefuseLoginElsewhere {
		c.endOlderConns()
	}
	c.expectDispatch() // before the post, as in joinWorld
	h.loginWaits.Store(true)
	if err := c.world.post(h.decideLogin); errors.Is(err, ErrBacklogFull) {
		h.verdicts <- verdict{identity: identity, err: err, loggedIn: true}
	}
	// If post failed because the world is closed, no verdict is needed, because World.Close closes
	// the connection.
}

// decideLogin runs Config.Login on the world's goroutine and sends its verdict.
func (h *handshake) decideLogin() {
	c, w := h.conn, h.conn.world
	v := verdict{identity: c.identity, err: errNoLogin, loggedIn: true}
	if c.life.mayJoin() && len(w.admission.endedBefore(c)) > 0 {
		// OnDisconnect hasn't run yet for earlier connections of the same identity, so leave it to
		// logInWaiting to call decideLogin again.
		w.admission.loggingIn = append(w.admission.loggingIn, h)
		return
	}
	h.loginWaits.Store(false)
	defer func() { h.verdicts <- v }()
	if c.life.mayJoin() {
		v.err = h.runLogin()
	}
}

// runLogin runs Config.Login. It returns errNoLogin if Login panics.
func (h *handshake) runLogin() (err error) {
	c, w := h.conn, h.conn.world
	err = errNoLogin
	defer w.game.Catch(c)
	w.game.Doing = tasks.Doing{What: "Config.Login"}
	return w.config.Login(w, c)
}

// welcome sends the client its identity, unless Config.RefuseLoginElsewhere is set and the
// identity has already reached its limit of connections.
func (h *handshake) welcome(identity string) {
	c := h.conn
	if !c.life.loginAsked.Load() {
		c.world.lobby.identify(c, identity)
	}
	if c.world.config.RefuseLoginElsewhere {
		if _, refused := c.world.lobby.claim(c); refused != nil {
			c.Close(refused.Code, refused.Reason)
			return
		}
	}
	h.greeting.Welcomed()
	h.conn.sendAtOnce(control.AppendWelcome(nil, control.Welcome{Identity: identity}))
	h.beginSealed()
}

// expire is called when the timer fires. Either the handshake has taken too long, or the client
// should have closed the connection because the classes differ, but didn't.
func (h *handshake) expire() {
	config := h.conn.world.config
	switch {
	case h.mismatch != nil:
		h.conn.abort(h.mismatch)
	case h.greeting.AwaitsHello():
		h.conn.abort(violationf(HandshakeTimeout, "still %v after %v (Config.HelloTimeout)",
			h.greeting, config.HelloTimeout))
	case h.loginWaits.Load():
		h.conn.abort(violationf(HandshakeTimeout, "Config.Login has not run after %v (Config.HandshakeTimeout): it runs in Dispatch, so is the server's world driven, by Run or by Tick in a loop?",
			config.HandshakeTimeout))
	default:
		h.conn.abort(violationf(HandshakeTimeout, "still %v after %v (Config.HandshakeTimeout)",
			h.greeting, config.HandshakeTimeout))
	}
}

// beginSealed starts the first sealed carrier if both ends have set Config.Sealed.
//
// It must be called after sending our last handshake message. The carrier starts by sending probe
// packets, and on a slow path the message would have to wait behind them. This order also means
// that no client gets a sealed carrier without having logged in.
func (h *handshake) beginSealed() {
	if s := h.conn.sealed; s.agreed() {
		s.begin()
	}
}

// onMismatch ends a handshake between ends whose classes differ.
//
// Usually it doesn't say how the classes differ, because a client that hasn't logged in shouldn't
// learn the game's classes. With Config.ExplainMismatch, however, the server describes its classes
// to the client, which then closes the connection. The reason names the difference, so it appears
// in both logs.
func (h *handshake) onMismatch(peer control.Hello) {
	c := h.conn
	ours := h.hello()
	client, server := h.orderBySide(ours, peer)
	mismatch := violationf(ProtocolMismatch,
		"classes differ: shape %x at the client, %x at the server (set the server's Config.ExplainMismatch to see the difference)",
		client.Shape[:4], server.Shape[:4])
	if !c.server || !c.world.config.ExplainMismatch {
		c.abort(mismatch)
		return
	}
	h.greeting.Refuse()
	h.mismatch = mismatch
	h.timer.Reset(mismatchTime)
	limit := min(ours.Params.MaxBunch, peer.Params.MaxBunch)
	h.conn.sendAtOnce(control.AppendShape(nil, c.world.table.shape.Lines, limit))
}

// orderBySide returns the client's Hello and then the server's. Both ends log the same reason, so
// it must say "client" and "server" rather than "ours" and "theirs".
func (h *handshake) orderBySide(ours, peers control.Hello) (client, server control.Hello) {
	if h.conn.server {
		return peers, ours
	}
	return ours, peers
}

// refuseChannels sets the code that closes the connection if the peer opens a channel. With
// NoError, the peer may open channels.
func (h *handshake) refuseChannels(code bunch.Code) {
	c := h.conn
	c.link.Lock()
	defer c.link.Unlock()
	c.machine.Refuse(code)
}

// hello returns this side's Hello.
func (h *handshake) hello() control.Hello {
	c := h.conn
	c.link.Lock()
	defer c.link.Unlock()
	ours := control.Hello{
		Version:     control.Version,
		Params:      c.machine.Params(),
		Shape:       c.world.table.hash,
		GameVersion: c.world.config.GameVersion,
	}
	if c.sealed != nil {
		ours.Features |= control.FeatureSealed
	}
	return ours
}
