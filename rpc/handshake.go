package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/shape"
	"github.com/quivernet/quiver/internal/tasks"
)

// mismatchTime is how long a server waits for a client whose classes differ. In this time the
// client names the difference and closes, which it does as soon as it has the server's lines.
// The time allows for the lines and the close to arrive, with resends.
const mismatchTime = 2 * time.Second

// handshake is one side of a connection's handshake. It runs on a goroutine of its own
// (Conn.runHandshake), so it advances even if the world does not tick.
type handshake struct {
	conn     *Conn
	greeting control.Greeting
	// Fires at deadline. On a server it fires earlier, at HelloTimeout, if Hello has not
	// arrived. If the classes differ, it fires after mismatchTime.
	timer    *time.Timer
	deadline time.Time // of the whole handshake
	// Set if the classes differ: the error with which the timer ends the connection.
	mismatch *CloseError
	ctx      context.Context // for Authenticate; done when the handshake ends
	// From authenticate, awaitTurn or Login to step. There is one verdict at a time,
	// so with a capacity of 1 no sender waits.
	verdict chan verdict
}

// verdict is the decision of Authenticate about a client, or of Login afterwards.
type verdict struct {
	identity string
	err      error
	failures int  // logins of the client's address that Authenticate has refused
	loggedIn bool // Login has run
}

// The verdicts if Login or Authenticate panicked or called runtime.Goexit. After a
// panic, [World.panicked] has already closed the connection, because the panic is
// not the client's fault.
var (
	errNoLogin  = errors.New("Config.Login did not return")
	errNoAnswer = errors.New("Config.Authenticate did not return")
)

// runHandshake runs the handshake until c has joined or has ended.
func (c *Conn) runHandshake() {
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
		verdict:  make(chan verdict, 1),
	}
	defer h.timer.Stop()
	if !c.server {
		h.conn.sendAtOnce(control.AppendHello(nil, h.hello()))
		h.conn.sendAtOnce(control.AppendLogin(nil, control.Login{Token: c.world.config.Token}))
	}
	for !h.step() {
	}
}

// step waits for a message, a verdict, the timer or the link's end. It reports
// whether the handshake is over.
func (h *handshake) step() (over bool) {
	c := h.conn
	select {
	case <-c.handshakeWake:
		h.receiveAll()
	case v := <-h.verdict:
		h.answer(v)
	case <-h.timer.C:
		h.expire()
	case <-c.link.Done():
		return true
	}
	if h.greeting.Done() && h.mismatch == nil && !c.closing.Load() {
		return c.joinWorld()
	}
	return false
}

// receiveAll handles the messages that have arrived. It leaves messages after the
// handshake's last one to the world.
func (h *handshake) receiveAll() {
	c := h.conn
	for !h.greeting.Done() && !c.closing.Load() {
		c.link.Lock()
		message, ok := c.machine.Next()
		c.link.Unlock()
		if !ok {
			return
		}
		c.trace.Took()
		h.receive(message.Payload) // on channel 0, because the machine refuses other channels before Join
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
		h.conn.refuseChannels(bunch.NoError) // the server opens channels once it has the Join
		h.conn.sendAtOnce(control.AppendJoin(nil))
		h.beginSealed()
	case control.Join:
		h.conn.refuseChannels(bunch.Code(BunchWrongChannel))
	case control.Shape:
		h.conn.Close(ProtocolMismatch, shape.Mismatch(h.conn.world.table.shape.Lines, m.Lines, m.Cut))
	}
}

// onHello compares the peer's version and classes with ours, and agrees on limits. A
// server then answers with its own Hello.
func (h *handshake) onHello(peer control.Hello) {
	c := h.conn
	ours := h.hello()
	h.timer.Reset(time.Until(h.deadline))
	if peer.Version != ours.Version {
		client, server := c.bySide(ours, peer)
		c.abort(violationf(ProtocolMismatch, "the client speaks version %d and the server version %d",
			client.Version, server.Version))
		return
	}
	if peer.Shape != ours.Shape {
		h.mismatched(peer)
		return
	}
	c.link.Lock()
	err := c.machine.Agree(peer.Params)
	c.link.Unlock()
	c.maxBunch = min(ours.Params.MaxBunch, peer.Params.MaxBunch)
	switch {
	case err != nil:
		c.abort(violationf(ControlChannelMessagePayloadFail, "Hello: %v", err))
	case c.server:
		h.conn.sendAtOnce(control.AppendHello(nil, ours))
	}
	c.peerSeals.Store(peer.Features&control.FeatureSealed != 0)
}

// onLogin starts a goroutine on which Authenticate decides about the client.
func (h *handshake) onLogin(m control.Login) {
	c := h.conn
	c.world.lobby.hasLogin(c)
	if c.world.config.Authenticate == nil {
		h.answer(verdict{})
		return
	}
	c.work.Go(func() { h.authenticate(m.Token) })
}

// authenticate waits for the token's turn and runs Authenticate. If Authenticate
// panics or exits its goroutine, the client is refused.
//
// The handshake keeps its place until Authenticate has returned, even if the connection has
// ended. This limits the calls of Authenticate to Config.MaxHandshakes at a time.
func (h *handshake) authenticate(token []byte) {
	if !h.awaitTurn(token) {
		return
	}
	v := verdict{err: errNoAnswer}
	defer func() {
		if h.record(token, &v) {
			h.verdict <- v
		}
	}()
	defer h.conn.world.catch(h.conn, tasks.Doing{What: "Config.Authenticate"})
	v.identity, v.err = h.conn.world.config.Authenticate(h.ctx, token)
}

// awaitTurn waits until Authenticate may be asked about a token. It returns false if
// the client has left, or if too many logins from its address have failed. In the
// second case it has sent the verdict.
func (h *handshake) awaitTurn(token []byte) (may bool) {
	w, v := h.conn.world, h.conn.visit
	may, pause := w.lobby.awaitTurn(v, token)
	if pause > 0 {
		reason := fmt.Sprintf("too many logins from %v failed (Config.MaxLoginFailures is %d): the next one may come in %v",
			v.From(), w.config.MaxLoginFailures, pause.Round(time.Millisecond))
		h.verdict <- verdict{err: &CloseError{Code: ServerFull, Reason: reason}}
	}
	return may
}

// record tells the lobby what Authenticate has decided about a token, and sets
// v.failures. It reports whether to send the verdict.
//
// A success that the client is not told of is not recorded, so no later login shows it.
func (h *handshake) record(token []byte, v *verdict) (tell bool) {
	late := !time.Now().Before(h.deadline)
	gone := h.ctx.Err() != nil
	tell = !late && !gone
	passed := v.err == nil && tell
	refused := v.err != nil && !late && aboutToken(v.err, gone)
	v.failures = h.conn.world.lobby.recordAnswer(h.conn.visit, token, refused, passed)
	return tell
}

// aboutToken reports whether an error of Authenticate says that the token is bad.
// Otherwise it says that Authenticate could not decide. gone says that the handshake was
// canceled.
func aboutToken(err error, gone bool) bool {
	canceled := gone && errors.Is(err, context.Canceled)
	return err != errNoAnswer && passing(err) == nil && !canceled
}

// answer acts on a verdict. It asks Login, welcomes the client or refuses it.
func (h *handshake) answer(v verdict) {
	c := h.conn
	if v.err == nil && !v.loggedIn && c.world.config.Login != nil && len(v.identity) <= control.MaxIdentity {
		h.logIn(v.identity)
		return
	}
	c.world.lobby.awaitJoin(c, v.err == nil)
	switch {
	case c.closing.Load():
	case v.err != nil:
		h.refuse(v)
	case len(v.identity) > control.MaxIdentity:
		c.abort(violationf(PreLoginFailure, "Authenticate returned an identity of %d bytes, the limit is %d",
			len(v.identity), control.MaxIdentity))
	default:
		h.welcome(v.identity)
	}
}

// refuse tells the client and the log that its login was refused. From the second failure on,
// the log also says how many logins of the address Authenticate has refused.
func (h *handshake) refuse(v verdict) {
	c := h.conn
	args := []any{"conn", c, "error", v.err}
	if v.failures > 1 {
		args = append(args, "failures", v.failures)
	}
	c.refused.Store(true)
	c.world.logs.Stranger(logs.Login, "login refused", args...)
	retry := passing(v.err)
	switch {
	case retry != nil:
		c.Close(retry.Code, retry.Reason)
	case v.err == errNoAnswer || v.err == errNoLogin:
		c.Close(HandlerPanic, v.err.Error())
	default:
		c.Close(PreLoginFailure, v.err.Error())
	}
}

// passing returns the CloseError for an error of Authenticate or Login after which
// the client may try again. It returns nil for all other errors.
//
// That is the Temporary CloseError that err is or wraps. For a full queue, of
// Login's post or of a Do in Authenticate, it is ServerFull.
func passing(err error) *CloseError {
	if temporary, ok := errors.AsType[*CloseError](err); ok && temporary != nil && temporary.Temporary() {
		return temporary
	}
	if errors.Is(err, ErrBacklogFull) {
		return &CloseError{Code: ServerFull, Reason: strings.TrimPrefix(err.Error(), prefix)}
	}
	return nil
}

// logIn posts decideLogin to the world's goroutine. It first ends the connections that this
// one replaces, because Config.Login may load what their OnDisconnect saves.
//
// In a closed world there is no verdict, because World.Close closes the connection
// with its own code.
func (h *handshake) logIn(identity string) {
	c := h.conn
	c.world.lobby.identify(c, identity)
	c.loginAsked.Store(true)
	if !c.world.config.RefuseLoginElsewhere {
		c.endOlderConns()
	}
	c.expectDispatch() // before the post, as in joinWorld
	if err := c.world.post(h.decideLogin); errors.Is(err, ErrBacklogFull) {
		h.verdict <- verdict{identity: identity, err: err, loggedIn: true}
	}
}

// decideLogin runs Config.Login and sends its verdict. The handshake waits in World.loggingIn
// while OnDisconnect has yet to run for ended connections of the same identity.
func (h *handshake) decideLogin() {
	c, w := h.conn, h.conn.world
	v := verdict{identity: c.identity, err: errNoLogin, loggedIn: true}
	if c.mayJoin() && len(w.endedBefore(c)) > 0 {
		w.loggingIn = append(w.loggingIn, h)
		return
	}
	defer func() { h.verdict <- v }()
	if c.mayJoin() {
		v.err = w.login(c)
	}
}

// logInWaiting tries each login in loggingIn again. A login that must still wait returns there.
func (w *World) logInWaiting() {
	for range w.loggingIn {
		h := w.loggingIn[0]
		w.loggingIn = slices.Delete(w.loggingIn, 0, 1)
		h.decideLogin()
	}
}

// login runs Config.Login. It returns errNoLogin if Login does not return.
func (w *World) login(c *Conn) (err error) {
	err = errNoLogin
	defer w.game.Catch(c)
	w.game.Doing = tasks.Doing{What: "Config.Login"}
	return w.config.Login(w, c)
}

// welcome sends the client its identity. With Config.RefuseLoginElsewhere, it instead
// closes the connection if the identity may not have another one.
func (h *handshake) welcome(identity string) {
	c := h.conn
	if !c.loginAsked.Load() {
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

// expire ends a handshake that takes too long, or whose classes differ.
func (h *handshake) expire() {
	config := h.conn.world.config
	switch {
	case h.mismatch != nil:
		h.conn.abort(h.mismatch)
	case h.greeting.AwaitsHello():
		h.conn.abort(violationf(HandshakeTimeout, "after %v (Config.HelloTimeout) %v",
			config.HelloTimeout, h.greeting))
	default:
		h.conn.abort(violationf(HandshakeTimeout, "after %v (Config.HandshakeTimeout) %v",
			config.HandshakeTimeout, h.greeting))
	}
}

// beginSealed begins the first sealed carrier if both ends have Config.Sealed.
//
// It is called after this side has sent its last handshake message. On a slow path that
// message would otherwise wait for the probe packets with which the carrier begins. A
// client that has not logged in therefore gets no sealed carrier.
func (h *handshake) beginSealed() {
	if s := h.conn.sealed; s.agreed() {
		s.begin()
	}
}

// mismatched ends a handshake between ends whose classes differ. A client that has not logged
// in should not learn the game's classes. The server therefore sends them only with
// Config.ExplainMismatch. The client then names the difference in both logs.
func (h *handshake) mismatched(peer control.Hello) {
	c := h.conn
	client, server := c.bySide(h.hello(), peer)
	mismatch := violationf(ProtocolMismatch,
		"the classes differ: shape %x at the client, %x at the server; the server's Config.ExplainMismatch names the difference",
		client.Shape[:4], server.Shape[:4])
	if !c.server || !c.world.config.ExplainMismatch {
		c.abort(mismatch)
		return
	}
	h.greeting.Refuse()
	h.mismatch = mismatch
	h.timer.Reset(mismatchTime)
	h.conn.sendAtOnce(control.AppendShape(nil, c.world.table.shape.Lines))
}

// bySide returns the two Hellos by their senders. Reasons appear in both logs, so
// they must name the client and the server instead of this end.
func (c *Conn) bySide(ours, peers control.Hello) (client, server control.Hello) {
	if c.server {
		return peers, ours
	}
	return ours, peers
}

// refuseChannels sets the code with which the connection ends if the peer opens a
// channel. NoError allows channels.
func (c *Conn) refuseChannels(code bunch.Code) {
	c.link.Lock()
	defer c.link.Unlock()
	c.machine.Refuse(code)
}

// hello returns this side's Hello.
func (h *handshake) hello() control.Hello {
	c := h.conn
	c.link.Lock()
	defer c.link.Unlock()
	ours := control.Hello{Version: control.Version, Params: c.machine.Params(), Shape: c.world.table.hash}
	if c.sealed != nil {
		ours.Features |= control.FeatureSealed
	}
	return ours
}

// controlCodes are the codes that close a connection for each kind of error of package control.
var controlCodes = map[control.Kind]Code{
	control.Unknown:     ControlChannelMessageUnknown,
	control.Fail:        ControlChannelMessageFail,
	control.PayloadFail: ControlChannelMessagePayloadFail,
}

// violation returns the CloseError for an error of package control. Every such error
// is a *control.Error.
func violation(err error) *CloseError {
	message := err.(*control.Error)
	return &CloseError{Code: controlCodes[message.Kind], Reason: message.Reason, cause: err}
}
