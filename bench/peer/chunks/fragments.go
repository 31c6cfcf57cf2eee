package chunks

import (
	"net"
	"sync"
	"time"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
	"github.com/quivernet/quiver/chunk/fragment"
)

const protocolID = 0x71766265

// A fragments sends blocks once.
type fragments struct {
	socket   net.Conn
	far      net.PacketConn
	sequence uint16
	work     sync.WaitGroup

	mu    sync.Mutex
	catch func(block []byte)
}

func openFragments(n emulate.Net) (*fragments, error) {
	f := &fragments{socket: peer.NewConn(n.Client(), n.Address()), far: n.Server(), catch: func([]byte) {}}
	r, err := fragment.NewReassembler(fragment.Config{ProtocolID: protocolID, Lifetime: 5 * time.Second, MaxBytes: 4 * fragment.MaxBlock})
	if err != nil {
		return nil, err
	}
	f.work.Go(func() { f.receive(r) })
	return f, nil
}

func (f *fragments) receive(r *fragment.Reassembler) {
	buf := make([]byte, 1<<16)
	for {
		n, _, err := f.far.ReadFrom(buf)
		if err != nil {
			return
		}
		b, ok, err := r.Receive(time.Now(), buf[:n])
		if err != nil || !ok {
			continue
		}
		f.mu.Lock()
		catch := f.catch
		f.mu.Unlock()
		catch(b.Data)
	}
}

// Catch sets the function that is called with each block that arrives whole.
func (f *fragments) Catch(fn func(block []byte)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.catch = fn
}

// Throw sends a block once.
func (f *fragments) Throw(block []byte, gap time.Duration) error {
	parts, err := fragment.Split(f.sequence, block)
	if err != nil {
		return err
	}
	f.sequence++
	var buf []byte
	for i := range parts.Len() {
		buf = fragment.Append(buf[:0], protocolID, parts.At(i))
		if _, err := f.socket.Write(buf); err != nil {
			return err
		}
		time.Sleep(gap)
	}
	return nil
}

// Close closes both ends.
func (f *fragments) Close() {
	_, _ = f.socket.Close(), f.far.Close()
	f.work.Wait()
}
