package rpc

import (
	"fmt"
	"slices"
)

// claim makes c one of its identity's connections, and returns those that are too many now, the oldest first. With
// Config.RefuseLoginElsewhere c is one too many instead: refused says so. Again is nothing. A client claims nothing.
func (w *World) claim(c *Conn) (replaced []*Conn, refused *CloseError) {
	limit := w.config.MaxConnsPerIdentity
	if limit <= 0 || !c.server || c.identity == "" {
		return nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	have := w.claims[c.identity]
	if slices.Contains(have, c) || c.ended.Load() {
		return nil, nil
	}
	more := len(have) + 1 - limit
	if more > 0 && w.config.RefuseLoginElsewhere {
		return nil, &CloseError{Code: LoginElsewhere,
			Reason: fmt.Sprintf("%q has %d connections, the limit is Config.MaxConnsPerIdentity", clip(c.identity), len(have))}
	}
	w.claims[c.identity] = append(have, c)
	return slices.Clone(have[:max(0, more)]), nil
}

// disclaim forgets what c claimed. The world is locked.
func (w *World) disclaim(c *Conn) {
	have := w.claims[c.identity]
	i := slices.Index(have, c)
	switch {
	case i < 0:
	case len(have) == 1:
		delete(w.claims, c.identity)
	default:
		w.claims[c.identity] = slices.Delete(have, i, i+1)
	}
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
			Reason: fmt.Sprintf("%q logged in from elsewhere; the limit is %d connections, Config.MaxConnsPerIdentity", clip(c.identity), c.world.config.MaxConnsPerIdentity)})
		select {
		case <-o.done:
		case <-c.link.Done():
		}
	}
}
