package rpc

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quivernet/quiver/internal/netsim"
	"github.com/quivernet/quiver/internal/quicconn"
)

// quicForger makes short header packets of a QUIC client whose secrets are
// known, as any client's own are, with frames of its choice.
type quicForger struct {
	t      *testing.T
	mu     sync.Mutex
	secret []byte // CLIENT_TRAFFIC_SECRET_0
	id     []byte // connection id of the server, of the client's last packet

	aead   cipher.AEAD
	mask   cipher.Block
	iv     []byte
	number uint32
}

// Write takes a line of tls.Config.KeyLogWriter.
func (f *quicForger) Write(line []byte) (int, error) {
	if words := strings.Fields(string(line)); len(words) == 3 && words[0] == "CLIENT_TRAFFIC_SECRET_0" {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.secret, _ = hex.DecodeString(words[2])
	}
	return len(line), nil
}

// overheard is a client's socket, on which the forger reads the server's connection id.
type overheard struct {
	*netsim.PacketConn
	forger *quicForger
}

func (o *overheard) WriteTo(p []byte, to net.Addr) (int, error) {
	if p[0]&0xc0 == 0x40 {
		o.forger.mu.Lock()
		o.forger.id = bytes.Clone(p[1 : 1+quicconn.ConnectionIDBytes])
		o.forger.mu.Unlock()
	}
	return o.PacketConn.WriteTo(p, to)
}

// expand is HKDF-Expand-Label (RFC 8446, section 7.1) without a context.
func (f *quicForger) expand(label string, length int) []byte {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(length))
	info = append(append(info, byte(len(label))), label...)
	b, err := hkdf.Expand(sha256.New, f.secret, string(append(info, 0)), length)
	require.NoError(f.t, err)
	return b
}

// prepare derives the keys (RFC 9001, section 5.1). Numbers begin above those
// that the client has used.
func (f *quicForger) prepare() {
	block, err := aes.NewCipher(f.expand("quic key", 16))
	require.NoError(f.t, err)
	f.aead, err = cipher.NewGCM(block)
	require.NoError(f.t, err)
	f.mask, err = aes.NewCipher(f.expand("quic hp", 16))
	require.NoError(f.t, err)
	f.iv, f.number = f.expand("quic iv", 12), 5000
}

// packet returns the next packet, with these frames.
func (f *quicForger) packet(frames []byte) []byte {
	f.number++
	header := append([]byte{0x43}, f.id...)
	header = binary.BigEndian.AppendUint32(header, f.number)
	nonce := bytes.Clone(f.iv)
	binary.BigEndian.PutUint32(nonce[8:], binary.BigEndian.Uint32(nonce[8:])^f.number)
	p := f.aead.Seal(header, nonce, frames, header)
	var mask [16]byte
	at := 1 + len(f.id)
	f.mask.Encrypt(mask[:], p[at+4:at+20])
	p[0] ^= mask[0] & 0x1f
	for i := range 4 {
		p[at+i] ^= mask[1+i]
	}
	return p
}

// challenge returns a PATH_CHALLENGE alone, in the smallest packet there is.
func (f *quicForger) challenge() []byte {
	return f.packet(append([]byte{0x1a}, "12345678"...))
}

// bystander is a host that counts what comes.
type bystander struct {
	*netsim.PacketConn
	packets, bytes int
}

// drain reads what has come.
func (b *bystander) drain() {
	buf := make([]byte, 2048)
	for {
		_ = b.SetReadDeadline(time.Now().Add(time.Nanosecond))
		n, _, err := b.ReadFrom(buf)
		if err != nil {
			return
		}
		b.packets, b.bytes = b.packets+1, b.bytes+n
	}
}

// reflects has a client whose packets come from the address of somebody else: a
// thousand challenges, and before some of them what initials has. It returns
// how much was sent in all, and how much came to whom the address belongs.
func reflects(t *testing.T, config Config, initials [][]byte) (sent, came int) {
	t.Helper()
	f := &quicForger{t: t}
	n := &network{t: t, server: newTestWorld(t, config), clients: []*testWorld{newTestWorld(t, Config{})}}
	near, far := netsim.Pipe(clean, clean)
	victim := &bystander{PacketConn: netsim.NewPacketConn()}
	netsim.Connect(victim.PacketConn, far, clean, clean)
	serverTLS, clientTLS := credentials(t)
	clientTLS.KeyLogWriter = f
	listener, err := ListenPacket(far, serverTLS, n.server.World)
	require.NoError(t, err)
	end, err := DialPacket(t.Context(), &overheard{near, f}, far.LocalAddr(), clientTLS, n.clients[0].World)
	require.NoError(t, err)
	n.ends = []*Conn{end}
	n.tick(30)
	f.prepare()
	near.To(far).Dark(time.Hour) // the client itself is not to hear that its numbers were used
	far.To(near).Dark(time.Hour)
	send := func(p []byte) {
		sent += len(p)
		_, err := victim.WriteTo(p, far.LocalAddr())
		require.NoError(t, err)
		n.server.Tick(time.Now())
		time.Sleep(time.Millisecond)
	}
	for i := range 1000 {
		if i%20 == 0 && i/20 < len(initials) {
			send(initials[i/20])
		}
		send(f.challenge())
	}
	time.Sleep(time.Second)
	victim.drain()
	t.Logf("%d bytes sent, %d packets and %d bytes came: %.1f times", sent, victim.packets, victim.bytes, float64(victim.bytes)/float64(sent))
	require.NoError(t, listener.Close())
	end.Close(0, "")
	require.NoError(t, end.Wait(t.Context()))
	require.NoError(t, near.Close())
	require.NoError(t, far.Close())
	require.NoError(t, victim.Close())
	return sent, victim.bytes
}

// TestChallengesAreNoAmplifier: before, small PATH_CHALLENGEs that a client
// sent from another host's address were each answered there, in 1,200 bytes.
func TestChallengesAreNoAmplifier(t *testing.T) {
	for _, on := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			sent, came := reflects(t, Config{Sealed: on}, nil)
			require.Positive(t, came, "the server takes what is forged, and answers some")
			require.LessOrEqual(t, came, 3*sent+10*1200, "RFC 9000, section 8, and what a client that has moved needs")
		})
	}
}

// TestForgedHandshakesAreNoAmplifier: before, an Initial with another host's
// address let sixteen packets pass from there, of any connection.
func TestForgedHandshakesAreNoAmplifier(t *testing.T) {
	initials := newForge(t).initials(30) // fewer than Config.RetryAbove
	synctest.Test(t, func(t *testing.T) {
		sent, came := reflects(t, Config{}, initials)
		// Beyond QUIC's own limit, which a packet may exceed: 10 packets for
		// clients that have moved, and 16 for each of 4 that join.
		require.LessOrEqual(t, came, 3*sent+(10+4+4*16)*1200)
	})
}
