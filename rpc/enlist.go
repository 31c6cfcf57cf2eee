package rpc

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/internal/door"
	"github.com/quivernet/quiver/internal/logs"
)

// HandshakeStats is a snapshot of who came to a world's door.
type HandshakeStats struct {
	Open    int    // clients on the way in now
	Begun   uint64 // got a place: forged first packets below Config.RetryAbove included
	Retries uint64 // had to prove their address first
	Refused uint64 // found a limit reached: MaxHandshakes, MaxConns, or one of their address; those that QUIC refuses count by packets
	Evicted uint64 // were waited for, and had to make room
	Failed  uint64 // had a carrier and did not join, for whatever reason

	LoginsFailed uint64 // Authenticate refused the token
	LoginsSlowed uint64 // were not asked about: see Config.MaxLoginFailures
}

// HandshakeStats returns a snapshot. It is safe from any goroutine.
func (w *World) HandshakeStats() HandshakeStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.handshakes
	s.Open = w.door.Open(time.Now())
	return s
}

// mustProve reports whether a client whose first packet came from addr gets a Retry. quic-go asks it about every first packet
// without a valid token; addr may be forged.
func (w *World) mustProve(addr net.Addr) bool {
	w.mu.Lock()
	now := time.Now()
	crowded, open := w.door.Crowded(now), w.door.Open(now)
	if crowded {
		w.handshakes.Retries++
	}
	w.mu.Unlock()
	if crowded {
		w.logs.Warn(logs.Retry, "new clients must prove their address", "addr", addr, "handshakes", open, "Config.RetryAbove", w.config.retryAbove())
	}
	return crowded
}

// visit is a connection's place at the door.
type visit = door.Visit[Conn]

// serverFull says what the door says as the world says it.
func serverFull(none *door.Full) *CloseError {
	if none == nil {
		return nil
	}
	return &CloseError{Code: ServerFull, Reason: none.Reason}
}

// roomFor is serverFull beside the connection that makes room.
func roomFor(out *Conn, none *door.Full) (*Conn, *CloseError) { return out, serverFull(none) }

// visitKey finds the visit in the context of a QUIC connection.
type visitKey struct{}

// onInitial gives a client a place, before quic-go makes any state for it. It implements quic.Transport.ConnContext; an
// error refuses the client.
func (w *World) onInitial(ctx context.Context, client *quic.ClientInfo) (context.Context, error) {
	w.mu.Lock()
	v, out, none := w.door.Begin(door.AddressOf(client.RemoteAddr), client.AddrVerified, time.Now())
	full := serverFull(none)
	w.tally(v != nil, out, full)
	w.mu.Unlock()
	w.evict(out)
	if full != nil {
		w.logs.Warn(logs.Refused, "handshake refused", "addr", client.RemoteAddr, "code", full.Code.String(), "reason", full.Reason)
		return nil, full
	}
	context.AfterFunc(ctx, func() { w.leave(v) })
	return context.WithValue(ctx, visitKey{}, v), nil
}

// leave ends a visit, wherever it ends first.
func (w *World) leave(v *visit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.door.Leave(v)
}

// tally counts what the door did. The world is locked.
func (w *World) tally(begun bool, out *Conn, full *CloseError) {
	if begun {
		w.handshakes.Begun++
	}
	if out != nil {
		w.handshakes.Evicted++
	}
	if full != nil {
		w.handshakes.Refused++
	}
}

// await says that c has answered its client's Login, and may have to make room until the client joins or leaves.
func (w *World) await(c *Conn, welcomed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.door.Await(c.visit, c, welcomed)
}

// evict ends a handshake that has to make room, also one that is telling its client why it is refused; nil is nothing.
func (w *World) evict(c *Conn) {
	if c == nil {
		return
	}
	full := &CloseError{Code: ServerFull, Reason: "it had not joined yet, and a full server or address gave its place away: see Config.MaxHandshakes, MaxHandshakesPerAddress"}
	c.stop(full)
	c.link.Abort(uint64(full.Code), full.Reason)
}

// enlist counts a new connection against the limits of the world, or says which one is reached. v is its place among the
// handshakes, nil when its carrier came without.
func (w *World) enlist(c *Conn, v *visit) *CloseError {
	w.mu.Lock()
	out, full := w.admitAt(c, v)
	if full == nil {
		out, full = w.fitConn(out)
	}
	if full == nil && !w.memory.Enter() {
		full = &CloseError{Code: ServerFull, Reason: fmt.Sprintf("no %d bytes left of Config.ReceiveBudget, %d", minReceiveLimit, w.config.receiveBudget())}
	}
	w.tally(v == nil && full == nil, out, full)
	w.settle(c, full)
	w.mu.Unlock()
	w.evict(out)
	return full
}

// admitAt gives the connection its place at the door. The world is locked.
func (w *World) admitAt(c *Conn, v *visit) (out *Conn, full *CloseError) {
	if w.closed != nil {
		full = &CloseError{Code: HostClosedConnection, Reason: "the world is closed"}
	} else if v != nil {
		out, full = roomFor(w.door.Prove(v))
	} else {
		var none *door.Full
		v, out, none = w.door.Begin(c.origin(), true, time.Now())
		full = serverFull(none)
	}
	c.visit = v
	return out, full
}

// origin returns what the limits of an address count by: nothing on a client.
func (c *Conn) origin() netip.Prefix {
	if !c.server {
		return netip.Prefix{}
	}
	return door.AddressOf(c.RemoteAddr())
}

// fitConn makes sure that the world may have one connection more; out, when not nil, is about to leave. The world is locked.
func (w *World) fitConn(out *Conn) (*Conn, *CloseError) {
	if w.count < w.config.maxConns() || out != nil {
		return out, nil
	}
	return roomFor(w.door.MakeRoom(door.AmongConnections, true, fmt.Sprintf("%d connections, the limit is Config.MaxConns", w.count)))
}

// settle counts the connection, or gives its place back. The world is locked.
func (w *World) settle(c *Conn, full *CloseError) {
	if full != nil {
		if c.visit != nil {
			w.door.Leave(c.visit)
		}
		return
	}
	c.reserved.Store(minReceiveLimit)
	w.serial++
	c.id = w.serial
	w.count++
}
