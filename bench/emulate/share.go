package emulate

import (
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/job"
	"github.com/quivernet/quiver/internal/netsim"
)

// Share returns nets over one path, whose bottleneck they share, in virtual time. Each datagram travels with one more
// byte that names its net; the path charges so much less for headers.
func Share(j job.Job, nets int) ([]Net, error) {
	if j.Clock != job.Virtual {
		return nil, fmt.Errorf("emulate: nets share a path in virtual time only, not in %q", j.Clock)
	}
	path := Path(j)
	path.Overhead = netsim.UDPOverhead - 1
	whole := newPipe(path)
	near, far := newTagged(whole.near, nets), newTagged(whole.far, nets)
	var all []Net
	for i := range nets {
		all = append(all, &lane{pipe: whole, client: near[i], server: far[i]})
	}
	return all, nil
}

// lane is one of the nets.
type lane struct {
	*pipe
	client, server *tagged
}

func (l *lane) Client() net.PacketConn { return l.client }
func (l *lane) Server() net.PacketConn { return l.server }

// Stats counts this net's own datagrams as they arrive.
func (l *lane) Stats() (up, down netsim.Stats) { return l.server.stats(), l.client.stats() }

// tagged is one of several sockets on one.
type tagged struct {
	*netsim.PacketConn
	tag   byte
	inbox chan datagram

	mu       sync.Mutex
	count    netsim.Stats
	deadline time.Time
	moved    chan struct{} // the deadline has
}

type datagram struct {
	data []byte
	from net.Addr
}

// inboxLength is more datagrams than a path and its queue hold.
const inboxLength = 1 << 13

func newTagged(c *netsim.PacketConn, count int) []*tagged {
	var all []*tagged
	for i := range count {
		all = append(all, &tagged{PacketConn: c, tag: byte(i), inbox: make(chan datagram, inboxLength), moved: make(chan struct{}, 1)})
	}
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if n > 0 && int(buf[0]) < count {
				all[buf[0]].put(datagram{append([]byte(nil), buf[1:n]...), from})
			}
		}
	}()
	return all
}

func (t *tagged) put(d datagram) {
	t.mu.Lock()
	t.count.Delivered++
	t.count.DeliveredBytes += uint64(len(d.data))
	t.mu.Unlock()
	select {
	case t.inbox <- d:
	default: // a reader that far behind loses packets, as with a socket
	}
}

func (t *tagged) stats() netsim.Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// WriteTo sends a datagram with its tag.
func (t *tagged) WriteTo(p []byte, to net.Addr) (int, error) {
	_, err := t.PacketConn.WriteTo(append([]byte{t.tag}, p...), to)
	return len(p), err
}

// ReadFrom waits for a datagram with this tag.
func (t *tagged) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		wait, passed := t.untilDeadline()
		if passed {
			return 0, nil, os.ErrDeadlineExceeded
		}
		select {
		case d := <-t.inbox:
			return copy(p, d.data), d.from, nil
		case <-wait:
		case <-t.moved:
		}
	}
}

func (t *tagged) untilDeadline() (wait <-chan time.Time, passed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deadline.IsZero() {
		return nil, false
	}
	left := time.Until(t.deadline)
	return time.After(left), left <= 0
}

// SetReadDeadline also ends a read that waits.
func (t *tagged) SetReadDeadline(at time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deadline = at
	select {
	case t.moved <- struct{}{}:
	default:
	}
	return nil
}
