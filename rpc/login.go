package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quivernet/quiver/internal/tasks"

	"github.com/quivernet/quiver/internal/control"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/shape"
)

// verdict is what Authenticate answered, or Login after it.
type verdict struct {
	identity string
	err      error
	loggedIn bool // Login has run
}

// errNoLogin is the verdict of a Login that did not return.
var errNoLogin = errors.New("Config.Login did not return")

// errNoAnswer is the verdict of an Authenticate that panicked: no fault of the client.
var errNoAnswer = errors.New("Config.Authenticate did not return")

// onLogin lets Authenticate decide.
func (h *handshake) onLogin(m control.Login) {
	c := h.conn
	w := c.world
	w.mu.Lock()
	c.visit.WaitFor(nil) // from here on the client waits
	w.mu.Unlock()
	if w.config.Authenticate == nil {
		h.answer(verdict{})
		return
	}
	c.work.Go(func() { h.ask(m.Token) })
}

// ask runs Authenticate when it may. One that does not return refuses the client. The handshake keeps its place until it has
// returned, whatever becomes of the connection, so that no more run at once than Config.MaxHandshakes.
func (h *handshake) ask(token []byte) {
	if !h.turn(token) {
		return
	}
	v := verdict{err: errNoAnswer}
	defer func() {
		if h.heard(token, v.err) {
			h.verdict <- v
		}
	}()
	defer h.conn.catchAuthenticate()
	v.identity, v.err = h.conn.world.config.Authenticate(h.ctx, token)
}

// catchAuthenticate is World.catch for the goroutine of Authenticate.
func (c *Conn) catchAuthenticate() {
	if c.world.config.OnPanic == nil {
		return
	}
	if recovered := recover(); recovered != nil {
		c.world.panicked(c, tasks.Doing{What: "Config.Authenticate"}, recovered)
	}
}

// turn waits until Authenticate may be asked about a token. If it may not, the client is refused, or gone.
func (h *handshake) turn(token []byte) (may bool) {
	w, v := h.conn.world, h.conn.visit
	w.mu.Lock()
	defer w.mu.Unlock()
	for !v.Left() {
		may, pause := w.failures.Ask(v.From(), token, w.door.Asking(v.From()), time.Now())
		switch {
		case may:
			w.door.Ask(v)
			return true
		case pause > 0:
			w.handshakes.LoginsSlowed++
			h.verdict <- verdict{err: fmt.Errorf("too many logins from %v failed (Config.MaxLoginFailures is %d): the next one may come in %v",
				v.From(), w.config.maxLoginFailures(), pause.Round(time.Millisecond))}
			return false
		}
		w.answered.Wait()
	}
	return false
}

// heard notes what Authenticate thought of a token, and reports whether the client may hear it. What it does not hear it must
// not find out by a later login either.
func (h *handshake) heard(token []byte, err error) (tell bool) {
	w, v := h.conn.world, h.conn.visit
	late, gone := !time.Now().Before(h.deadline), h.ctx.Err() != nil
	w.mu.Lock()
	defer w.mu.Unlock()
	w.door.Answered(v)
	w.answered.Broadcast()
	switch {
	case late, err == errNoAnswer, gone && errors.Is(err, context.Canceled): // it says nothing about the token
	case err != nil:
		w.failures.Failed(v.From(), token, time.Now())
		w.handshakes.LoginsFailed++
	case !gone:
		w.failures.Passed(token)
	}
	return !late && !gone
}

// answer welcomes the client or tells it why not.
func (h *handshake) answer(v verdict) {
	c := h.conn
	if v.err == nil && !v.loggedIn && c.world.config.Login != nil && len(v.identity) <= control.MaxIdentity {
		h.logIn(v.identity)
		return
	}
	c.world.await(c, v.err == nil)
	switch {
	case c.closing.Load():
	case v.err != nil:
		c.world.logs.Warn(logs.Login, "login refused", "conn", c, "error", v.err)
		c.Close(PreLoginFailure, v.err.Error())
	case len(v.identity) > control.MaxIdentity:
		h.fail(violationf(PreLoginFailure, "Authenticate returned an identity of %d bytes, the limit is %d", len(v.identity), control.MaxIdentity))
	default:
		h.welcome(v.identity)
	}
}

// logIn lets Config.Login decide, on the world's goroutine.
func (h *handshake) logIn(identity string) {
	c := h.conn
	c.identify(identity)
	c.known.Store(true)
	v := verdict{identity: identity, err: errNoLogin, loggedIn: true}
	err := c.world.post(func() {
		defer func() { h.verdict <- v }()
		if c.expected() {
			v.err = c.world.login(c)
		}
	})
	if err != nil {
		v.err = err
		h.verdict <- v
	}
}

// login runs Config.Login.
func (w *World) login(c *Conn) (err error) {
	err = errNoLogin
	defer w.catch(c)
	w.doing = tasks.Doing{What: "Config.Login"}
	return w.config.Login(w, c)
}

// expected reports whether the connection may still join, and may own actors before that.
func (c *Conn) expected() bool {
	return c.known.Load() && !c.joined.Load() && !c.closing.Load() && !c.ended.Load()
}

// openOwned opens, in tasks, what Config.Login gave to a connection that has joined.
func (w *World) openOwned(c *Conn) {
	for a := range c.owned.all {
		for _, heir := range a.household(nil) {
			w.later(c, tasks.Doing{What: "the state of ", Of: heir.class}, func() {
				if heir.owner == c {
					w.openAlways(heir, c)
				}
			})
		}
	}
}

// welcome tells the client who it is.
func (h *handshake) welcome(identity string) {
	c := h.conn
	if !c.known.Load() {
		c.identify(identity)
	}
	if c.world.config.RefuseLoginElsewhere {
		if _, refused := c.world.claim(c); refused != nil {
			c.Close(refused.Code, refused.Reason)
			return
		}
	}
	h.greeting.Welcomed()
	h.send(control.AppendWelcome(nil, control.Welcome{Identity: identity}))
	h.beginSealed()
}

// expire ends a handshake that takes too long.
func (h *handshake) expire() {
	config := h.conn.world.config
	late := h.late
	switch {
	case late != nil:
	case h.greeting.AwaitsHello():
		late = violationf(HandshakeTimeout, "after %v (Config.HelloTimeout) %v", config.helloTimeout(), h.greeting)
	default:
		late = violationf(HandshakeTimeout, "after %v (Config.HandshakeTimeout) %v", config.handshakeTimeout(), h.greeting)
	}
	h.fail(late)
}

// claim makes c one of its identity's connections, and returns those that are too many now, the oldest first. With
// Config.RefuseLoginElsewhere c is one too many instead: refused says so. A client claims nothing.
func (w *World) claim(c *Conn) (replaced []*Conn, refused *CloseError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !c.server || c.ended.Load() {
		return nil, nil
	}
	replaced, others, full := w.claims.Claim(c.identity, c)
	if full {
		refused = &CloseError{Code: LoginElsewhere,
			Reason: fmt.Sprintf("%q has %d connections, the limit is Config.MaxConnsPerIdentity", shape.Clip(c.identity), others)}
	}
	return replaced, refused
}

// replace ends the connections that c is one too many beside, and waits for their end, so that the world hears of it before
// it hears of c.
func (c *Conn) replace() {
	old, refused := c.world.claim(c)
	if refused != nil { // claimed before Welcome
		c.abort(refused)
	}
	c.replaced = append(c.replaced, old...)
	for _, o := range old {
		o.abort(&CloseError{Code: LoginElsewhere,
			Reason: fmt.Sprintf("%q logged in from elsewhere; the limit is %d connections, Config.MaxConnsPerIdentity", shape.Clip(c.identity), c.world.config.MaxConnsPerIdentity)})
		select {
		case <-o.done:
		case <-c.link.Done():
		}
	}
}
