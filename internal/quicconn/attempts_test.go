package quicconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/stretchr/testify/require"
)

// TestAddressesInTurn: the next address is tried when one is silent for a while, or fails.
func TestAddressesInTurn(t *testing.T) {
	silence, broken := os.ErrDeadlineExceeded, errors.New("no way there")
	refused := fmt.Errorf("a wrong certificate: %w", &quic.TransportError{ErrorCode: 0x12a})
	for _, row := range []struct {
		name  string
		fates []error // of the addresses: nil answers after 100 ms, silence comes after 5 s, others at once
		won   time.Duration
		err   error
	}{
		{"the first answers", []error{nil, nil}, 100 * time.Millisecond, nil},
		{"the first is silent", []error{silence, nil}, 350 * time.Millisecond, nil},
		{"two are silent", []error{silence, silence, nil}, 600 * time.Millisecond, nil},
		{"the first fails", []error{refused, nil}, 100 * time.Millisecond, nil},
		{"behind one that is silent one fails", []error{silence, refused, nil}, 350 * time.Millisecond, nil},
		{"nobody answers", []error{silence, silence}, 5250 * time.Millisecond, silence},
		{"what is more than silence is told", []error{silence, refused}, 2250 * time.Millisecond, refused},
		{"it may be the first", []error{refused, silence}, 2 * time.Second, refused},
		{"one refuses behind one without a way", []error{broken, refused, silence}, 2 * time.Second, broken},
		{"what keeps nobody from answering", []error{broken, silence}, 5 * time.Second, broken},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, wanted := time.Now(), new(quic.Conn)
				var addrs []net.Addr
				for i := range row.fates {
					addrs = append(addrs, &net.UDPAddr{Port: i})
				}
				conn, err := dialFirst(t.Context(), addrs, func(ctx context.Context, addr net.Addr) (*quic.Conn, error) {
					after := map[error]time.Duration{nil: 100 * time.Millisecond, silence: 5 * time.Second}
					fate := row.fates[addr.(*net.UDPAddr).Port]
					select {
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					case <-time.After(after[fate]):
					}
					if fate != nil {
						return nil, fate
					}
					return wanted, nil
				})
				require.Equal(t, row.won, time.Since(began))
				require.ErrorIs(t, err, row.err)
				require.Equal(t, row.err == nil, conn == wanted)
			})
		})
	}
}

// TestNoAddressBehindTheEnd: when the caller cancels, no further address is tried.
func TestNoAddressBehindTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		tried := 0
		_, err := dialFirst(ctx, make([]net.Addr, maxAddresses), func(ctx context.Context, _ net.Addr) (*quic.Conn, error) {
			tried++
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, tried)
	})
}

// TestCanceledAmongAddresses: a caller that cancels gets that error, whatever
// an address has answered before.
func TestCanceledAmongAddresses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addrs := []net.Addr{&net.UDPAddr{Port: 1}, &net.UDPAddr{Port: 2}}
	_, err := dialFirst(ctx, addrs, func(ctx context.Context, addr net.Addr) (*quic.Conn, error) {
		if addr == addrs[0] {
			return nil, errors.New("refused")
		}
		cancel()
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	require.ErrorIs(t, err, context.Canceled)
}
