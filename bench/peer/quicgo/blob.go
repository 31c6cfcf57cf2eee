package quicgo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"github.com/quic-go/quic-go"

	"github.com/quivernet/quiver/bench/peer"
)

// partBytes is how much a stream carries in the style with a stream per message.
const partBytes = 32 << 10

// A blob is one that is in flight.
type blob struct {
	want   []byte
	digest hash.Hash // digest of what arrives; nil = none
	done   chan error

	mu  sync.Mutex
	got int
}

// whole reads the blob from one stream, with its digest after it if there is one.
func (b *blob) whole(s *quic.ReceiveStream) {
	r := io.LimitReader(s, int64(len(b.want)))
	if b.digest != nil {
		r = io.TeeReader(r, b.digest)
	}
	err := peer.NewSink(b.want).Drain(r)
	if err == nil && b.digest != nil {
		err = b.verify(s)
	}
	b.end(err)
}

func (b *blob) verify(r io.Reader) error {
	sum, err := io.ReadAll(r)
	if err == nil && !bytes.Equal(sum, b.digest.Sum(nil)) {
		err = errors.New("quicgo: the digest is wrong")
	}
	return err
}

// part reads a piece from a stream of its own.
func (b *blob) part(s *quic.ReceiveStream) {
	data, err := io.ReadAll(s)
	if err != nil || len(data) < 8 {
		b.end(errors.Join(err, errors.New("quicgo: a short part")))
		return
	}
	at, data := int(binary.BigEndian.Uint64(data)), data[8:]
	if at < 0 || at+len(data) > len(b.want) || !bytes.Equal(b.want[at:at+len(data)], data) {
		b.end(fmt.Errorf("quicgo: %d bytes at %d are not what was sent", len(data), at))
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.got += len(data); b.got == len(b.want) {
		b.end(nil)
	}
}

// end reports the first result. If a transfer is cut, every part in flight has one.
func (b *blob) end(err error) {
	select {
	case b.done <- err:
	default:
	}
}

// Move sends a blob.
func (p *pair) Move(ctx context.Context, data []byte) error {
	b := &blob{want: data, done: make(chan error, 1)}
	if p.digest != nil {
		b.digest = p.digest()
	}
	p.mu.Lock()
	p.blob = b
	p.mu.Unlock()
	p.work.Go(func() {
		if err := p.send(data); err != nil {
			b.end(err)
		}
	})
	return peer.Await(ctx, b.done, 1)
}

func (p *pair) send(data []byte) error {
	if p.perMessage {
		return p.sendParts(data)
	}
	s, err := p.opened(kindBlob)
	if err != nil {
		return err
	}
	if p.digest == nil {
		err = peer.Pour(s, data)
		return errors.Join(err, s.Close())
	}
	return errors.Join(p.sendHashed(s, data), s.Close())
}

// sendHashed hashes each piece as it sends it, and sends the digest after them.
func (p *pair) sendHashed(w io.Writer, data []byte) error {
	digest := p.digest()
	if err := peer.Pour(io.MultiWriter(digest, w), data); err != nil {
		return err
	}
	_, err := w.Write(digest.Sum(nil))
	return err
}

func (p *pair) sendParts(data []byte) error {
	for at := 0; at < len(data); at += partBytes {
		s, err := p.client.OpenUniStreamSync(context.Background())
		if err != nil {
			return err
		}
		head := binary.BigEndian.AppendUint64([]byte{kindPart}, uint64(at))
		if _, err = s.Write(append(head, data[at:min(at+partBytes, len(data))]...)); err != nil {
			return err
		}
		if err = s.Close(); err != nil {
			return err
		}
	}
	return nil
}
