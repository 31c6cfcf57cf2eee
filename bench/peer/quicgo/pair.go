package quicgo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/bench/emulate"
	"github.com/quivernet/quiver/bench/peer"
)

// The first byte of a stream says what it carries.
const (
	kindBlob byte = iota
	kindPart      // a part of a blob: followed by its offset
	kindTalk
	kindWord // one message
	kindCall
	kindOne // one call
)

// A pair is a connection whose streams carry blobs, messages and calls.
type pair struct {
	conns
	style
	work sync.WaitGroup

	talk   *quic.SendStream
	calls  *peer.Calls
	guests guests
	peer.Ear

	mu   sync.Mutex
	blob *blob // the blob in flight
}

func open(ctx context.Context, n emulate.Net, s style) (*pair, error) {
	c, err := connect(ctx, n)
	if err != nil {
		return nil, err
	}
	p := &pair{conns: c, style: s}
	p.work.Go(p.acceptUni)
	p.work.Go(p.acceptCalls)
	if s.perMessage {
		return p, nil
	}
	if p.talk, err = p.opened(kindTalk); err != nil {
		return nil, err
	}
	calls, err := c.client.OpenStream()
	if err != nil {
		return nil, err
	}
	if _, err := calls.Write([]byte{kindCall}); err != nil {
		return nil, err
	}
	p.calls = peer.NewCalls(calls)
	return p, nil
}

// opened opens a stream of that kind.
func (p *pair) opened(kind byte) (*quic.SendStream, error) {
	s, err := p.client.OpenUniStreamSync(context.Background())
	if err != nil {
		return nil, err
	}
	_, err = s.Write([]byte{kind})
	return s, err
}

func (p *pair) acceptUni() {
	for {
		s, err := p.accepted.AcceptUniStream(context.Background())
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(s) })
	}
}

func (p *pair) serve(s *quic.ReceiveStream) {
	var kind [1]byte
	if _, err := io.ReadFull(s, kind[:]); err != nil {
		return
	}
	switch kind[0] {
	case kindBlob:
		p.current().whole(s)
	case kindPart:
		p.current().part(s)
	case kindTalk:
		_ = peer.Frames(s, p.Heard)
	case kindWord:
		if m, err := io.ReadAll(s); err == nil {
			p.Heard(m)
		}
	}
}

func (p *pair) current() *blob {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.blob
}

// Say sends a message.
func (p *pair) Say(message []byte) error {
	if !p.perMessage {
		return peer.WriteFrame(p.talk, message)
	}
	s, err := p.client.OpenUniStreamSync(context.Background())
	if err != nil {
		return err
	}
	_, err = s.Write(append([]byte{kindWord}, message...))
	return errors.Join(err, s.Close())
}

// acceptCalls answers calls with their argument.
func (p *pair) acceptCalls() {
	for {
		s, err := p.accepted.AcceptStream(context.Background())
		if err != nil {
			return
		}
		p.work.Go(func() { p.answer(s) })
	}
}

func (p *pair) answer(s *quic.Stream) {
	var kind [1]byte
	if _, err := io.ReadFull(s, kind[:]); err != nil {
		return
	}
	if kind[0] == kindCall {
		_ = peer.Echo(s)
		return
	}
	_, _ = io.Copy(s, s)
	_ = s.Close()
}

// Call makes a call.
func (p *pair) Call(ctx context.Context, argument []byte) error {
	if !p.perMessage {
		return p.calls.Call(ctx, argument)
	}
	s, err := p.client.OpenStreamSync(ctx)
	if err != nil {
		return err
	}
	if _, err := s.Write(append([]byte{kindOne}, argument...)); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	got, err := io.ReadAll(s)
	if err == nil && !bytes.Equal(got, argument) {
		err = errors.New("quicgo: a wrong answer")
	}
	return err
}

// Close closes the connection.
func (p *pair) Close() {
	p.guests.leave()
	p.conns.Close()
	p.work.Wait()
}
