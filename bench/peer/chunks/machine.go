package chunks

import (
	"net"
	"sync"
	"time"
)

// A machine is a pure protocol machine that sends and receives packets.
type machine interface {
	Receive(now time.Time, packet []byte) error
	Advance(now time.Time) error
	AppendPacket(now time.Time, buf []byte, size int) (packet []byte, number uint64, ok bool)
	NextTimeout() (at time.Time, ok bool)
}

const maxPacket = 1400

// A driver drives a machine over a socket: with one lock, a reader and a writer.
type driver struct {
	socket net.Conn
	moved  func() // called under the lock after the machine has received

	mu   sync.Mutex
	m    machine
	err  error
	wake chan struct{}
	done chan struct{}
	work sync.WaitGroup
}

func drive(socket net.Conn, m machine, moved func()) *driver {
	d := &driver{socket: socket, m: m, moved: moved, wake: make(chan struct{}, 1), done: make(chan struct{})}
	d.work.Go(d.read)
	d.work.Go(d.write)
	return d
}

func (d *driver) read() {
	buf := make([]byte, 1<<16)
	for {
		n, err := d.socket.Read(buf)
		if err != nil {
			return
		}
		d.with(func(m machine) error {
			err := m.Receive(time.Now(), buf[:n])
			d.moved()
			return err
		})
	}
}

// with calls fn under the lock, and wakes the writer.
func (d *driver) with(fn func(m machine) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = fn(d.m)
	}
	d.poke()
}

func (d *driver) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *driver) write() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var buf []byte
	for {
		packet, wait := d.next(buf[:0])
		if packet != nil {
			buf = packet
			_, _ = d.socket.Write(packet)
			continue
		}
		timer.Reset(wait)
		select {
		case <-d.wake:
		case <-timer.C:
		case <-d.done:
			return
		}
	}
}

// next returns a packet, or how long there will be none unless something wakes the driver.
func (d *driver) next(buf []byte) (packet []byte, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.err == nil {
		d.err = d.m.Advance(now)
	}
	if d.err != nil {
		return nil, time.Hour
	}
	if packet, _, ok := d.m.AppendPacket(now, buf, maxPacket); ok {
		return packet, 0
	}
	if at, ok := d.m.NextTimeout(); ok {
		return nil, max(0, at.Sub(now))
	}
	return nil, time.Hour
}

func (d *driver) close() {
	close(d.done)
	_ = d.socket.Close()
	d.work.Wait()
}
