package rpc

import (
	"errors"
	"time"
)

// verdict is what Authenticate answered.
type verdict struct {
	identity string
	err      error
}

// errNoAnswer is the verdict of an Authenticate that panicked: no fault of the client.
var errNoAnswer = errors.New("Config.Authenticate did not return")

// onLogin asks Authenticate, unless its address must wait.
func (h *handshake) onLogin(m login) {
	c := h.conn
	w := c.world
	asks := w.config.Authenticate != nil
	w.mu.Lock()
	c.visit.conn = nil // from here on the client waits
	wait := time.Duration(0)
	if asks {
		wait = w.failures.ask(c.visit.from, m.Token, time.Now())
	}
	if wait > 0 {
		w.handshakes.LoginsSlowed++
	}
	gone := c.visit.left
	c.visit.asking = asks && wait == 0 && !gone
	w.mu.Unlock()
	switch {
	case gone:
	case wait > 0:
		h.slow(wait)
	case asks:
		c.work.Go(func() { h.ask(m.Token) })
	default:
		h.answer(verdict{})
	}
}

// ask runs Authenticate. One that does not return refuses the client. The handshake keeps its place until it has returned,
// whatever becomes of the connection, so that no more run at once than Config.MaxHandshakes.
func (h *handshake) ask(token []byte) {
	v := verdict{err: errNoAnswer}
	defer func() {
		h.heard(token, v.err)
		h.verdict <- v
	}()
	defer h.conn.world.catch(h.conn)
	v.identity, v.err = h.conn.world.config.Authenticate(h.ctx, token)
}

// heard notes what Authenticate thought of a token.
func (h *handshake) heard(token []byte, err error) {
	w, v := h.conn.world, h.conn.visit
	w.mu.Lock()
	defer w.mu.Unlock()
	w.door.answered(v)
	switch {
	case err == nil:
		w.failures.passed(token)
	case err != errNoAnswer && h.ctx.Err() == nil: // else it only took too long
		w.failures.failed(v.from, token, time.Now())
		w.handshakes.LoginsFailed++
	}
}

// slow refuses a login whose address failed too often.
func (h *handshake) slow(wait time.Duration) {
	c := h.conn
	c.world.await(c, false)
	refusal := violationf(PreLoginFailure, "too many logins from %v failed (Config.MaxLoginFailures is %d): the next one may come in %v",
		c.visit.from, c.world.config.maxLoginFailures(), wait.Round(time.Millisecond))
	c.world.warn(warnLogin, "login slowed down", "conn", c, "error", refusal)
	c.Close(refusal.Code, refusal.Reason)
}

// answer welcomes the client or tells it why not.
func (h *handshake) answer(v verdict) {
	c := h.conn
	c.world.await(c, v.err == nil)
	switch {
	case c.closing.Load():
	case v.err != nil:
		c.world.warn(warnLogin, "login refused", "conn", c, "error", v.err)
		c.Close(PreLoginFailure, v.err.Error())
	case len(v.identity) > maxIdentity:
		h.fail(violationf(PreLoginFailure, "Authenticate returned an identity of %d bytes, the limit is %d", len(v.identity), maxIdentity))
	default:
		h.welcome(v.identity)
	}
}

// welcome tells the client who it is.
func (h *handshake) welcome(identity string) {
	c := h.conn
	c.identify(identity)
	if c.world.config.RefuseLoginElsewhere {
		if _, refused := c.world.claim(c); refused != nil {
			c.Close(refused.Code, refused.Reason)
			return
		}
	}
	h.greeting.welcomed()
	h.send(appendWelcome(nil, welcome{identity}))
}

// expire ends a handshake that takes too long.
func (h *handshake) expire() {
	config := h.conn.world.config
	late := h.late
	switch {
	case late != nil:
	case h.greeting.stage == awaitHello:
		late = violationf(HandshakeTimeout, "after %v (Config.HelloTimeout) %v", config.helloTimeout(), h.greeting.stage)
	default:
		late = violationf(HandshakeTimeout, "after %v (Config.HandshakeTimeout) %v", config.handshakeTimeout(), h.greeting.stage)
	}
	h.fail(late)
}
